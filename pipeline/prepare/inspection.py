"""A first look at a corpus file: is it whole, is it text, where do its lines lie."""

import contextlib
import dataclasses
import gzip
import itertools
import os
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from models.errors import UserError
from pipeline.places import Place, is_url, place
from pipeline.prepare.encodings import advice, is_text
from pipeline.workspace import file_fingerprint

BLOCK_LINES = 4096

RecordStart = Callable[[bytes, bytes], bool]
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEAD_BYTES = 1 << 16  # of a file, from which its encoding is guessed


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """What a look at a file found.

    Attributes:
        path: The file as the experiment names it.
        text_path: Where its plain text lies: the file, or its unpacked copy.
        bytes: Size of the file.
        hash: Of the file's bytes.
        lines: Number of lines.
        offsets: In the plain text, of the first byte of each block of about `BLOCK_LINES`
            lines, behind a byte order mark, and last of the end.
        first_lines: Number, from 1, of the first line of each block.
    """

    path: str
    text_path: str
    bytes: int
    hash: str
    lines: int
    offsets: tuple[int, ...]
    first_lines: tuple[int, ...]


def inspect_file(path: str, unpacked: Place, starts: RecordStart | None = None) -> FileFacts:
    """Read a file once and say what it holds.

    Args:
        path: The file. If its name ends in `.gz` it is unpacked, because a gzip cannot be
            read from the middle.
        unpacked: Where the plain text of a gzip goes.
        starts: Whether a record may start at a line, told the line before it and the line;
            None if any line may. Blocks begin at no other.

    Raises:
        UserError: If the file is missing, not a regular file, unreadable, empty, a torn
            gzip, or for the most part not UTF-8.
    """
    check_file(path)
    text_path = path if is_url(path) else os.path.abspath(path)
    if path.endswith(".gz"):
        _unpack(path, unpacked)
        text_path = str(unpacked)
    with _told_plainly(path), place(text_path).open("rb") as file:
        lines, offsets, first_lines = _scan(path, file, starts)
    return FileFacts(
        path=path,
        text_path=text_path,
        bytes=place(path).stat().st_size,
        hash=file_fingerprint(path),
        lines=lines,
        offsets=tuple(offsets),
        first_lines=tuple(first_lines),
    )


def check_file(path: str) -> None:
    """Hold a path to being a regular file that `prepare` can read.

    Raises:
        UserError: If it is not.
    """
    if path.endswith(".zip"):
        raise UserError(f"{path}: zip archives are not read; unpack it and name the file inside")
    file = place(path)
    with _told_plainly(path):
        if file.is_dir():
            raise IsADirectoryError
        file.stat()
        if not file.is_file():
            raise UserError(f"{path}: not a regular file; a corpus is read more than once")
        with file.open("rb"):
            pass


@contextlib.contextmanager
def _told_plainly(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        where = "" if is_url(path) else f" (looked for from {os.getcwd()})"
        raise UserError(f"{path}: no such file{where}; name an existing one in data") from None
    except IsADirectoryError:
        raise UserError(f"{path}: a folder, where a corpus file was expected") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None


def _unpack(path: str, unpacked: Place) -> None:
    try:
        with place(path).open("rb") as file, unpacked.open("wb") as plain:
            packed = gzip.GzipFile(fileobj=file)
            while piece := packed.read(1 << 20):
                plain.write(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path}: not a whole gzip file ({error}); fetch or pack it again, or drop .gz "
            "from its name if it is plain text"
        ) from None


def _scan(
    path: str, file: BinaryIO, starts: RecordStart | None
) -> tuple[int, list[int], list[int]]:
    """Number of lines, and the offsets and first lines of their blocks.

    Raises:
        UserError: If there is no line, or most lines are not UTF-8.
    """
    head = file.read(HEAD_BYTES)
    start = len(_BYTE_ORDER_MARK) if head.startswith(_BYTE_ORDER_MARK) else 0
    file.seek(start)
    lines, offsets, first_lines, broken = 0, [start], [], []
    for block in _blocks(file, starts):
        broken += _broken_lines(block, lines + 1)
        first_lines.append(lines + 1)
        lines += len(block)
        offsets.append(offsets[-1] + sum(map(len, block)))
    if not lines:
        raise UserError(f"{path}: an empty file, where a sentence a line was expected")
    if len(broken) > lines / 2:
        raise UserError(
            f"{path}, line {broken[0]}: not UTF-8, like {len(broken)} of its {lines} lines. "
            f"{advice(path, head)}"
        )
    return lines, offsets, first_lines


def _blocks(file: BinaryIO, starts: RecordStart | None) -> Iterator[list[bytes]]:
    """Lines by `BLOCK_LINES`, and as many more as the last record of a block takes."""
    # Iterating over a binary file ends lines at \n alone.
    block = list(itertools.islice(file, BLOCK_LINES))
    while block:
        following: list[bytes] = []
        if starts:
            for line in file:
                if starts(block[-1].rstrip(b"\r\n"), line.rstrip(b"\r\n")):
                    following = [line]
                    break
                block.append(line)
        yield block
        block = following + list(itertools.islice(file, BLOCK_LINES - len(following)))


def _broken_lines(block: list[bytes], first: int) -> list[int]:
    if is_text(b"".join(block)):
        return []
    return [number for number, line in enumerate(block, first) if not is_text(line)]
