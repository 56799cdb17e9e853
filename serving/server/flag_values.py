"""What flags take: as strict as TensorFlow Serving, so that what is read here is read there."""

import dataclasses
import math
import pathlib
import re
from collections.abc import Callable

from serving.server.options import Value
from serving.server.url_folder import Folder, folder_of

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of value.

    Attributes:
        read: Turns its text into the value; raises ValueError.
        expected: What it takes, for messages.
        bare: The text that a flag without one stands for; None where it needs one.
    """

    read: Callable[[str], Value | None]
    expected: str
    bare: str | None = None


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _folder(text: str) -> Folder | None:
    return folder_of(text) if text else None


def _path(text: str) -> pathlib.Path | None:
    return pathlib.Path(text) if text else None


def _name(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def whole(bits: int, least: int = 0) -> Callable[[str], int]:
    """A reader of whole numbers.

    Args:
        bits: Their size in memory.
        least: The least of them.
    """

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text) or not least <= int(text) < 1 << (bits - 1):
            raise ValueError(text)
        return int(text)

    return read


def _fraction(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _micros(text: str) -> float:
    # Below zero there is no pause.
    return max(0, whole(64, least=-(1 << 63))(text)) / 1e6


NAME = Kind(_name, "NAME")
TEXT = Kind(str, "TEXT")
FOLDER = Kind(_folder, "FOLDER")
FILE = Kind(_path, "FILE")
NUMBER = Kind(whole(32), "WHOLE_NUMBER")
FRACTION = Kind(_fraction, "NUMBER")
SECONDS = Kind(whole(32), "SECONDS")
MICROSECONDS = Kind(_micros, "WHOLE_NUMBER")
SWITCH = Kind(_boolean, "true or false", bare="true")
