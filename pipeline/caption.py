"""`seqloom caption`: files of pictures in, a line with a caption out for each."""

import collections
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from models.errors import UserError
from models.vision.problems import EMPTY, PROBLEMS
from pipeline.places import Place
from pipeline.predict import Predicts
from pipeline.translate import asked_model, check_streams
from pipeline.workspace import write_bytes
from serving.signatures import (
    ALIGN_CAPTION,
    ALIGNMENT,
    CAPTION,
    CAPTION_PICTURE,
    ERROR_CODE,
    IMAGE_BYTES,
    TARGET_TOKENS,
)

_SIDE = 224  # of a picture under its maps


class Captioned(NamedTuple):
    """What became of a file."""

    path: Place
    problem: str | None  # what is wrong with it
    row: dict[str, Any]  # the answer; empty where there is a problem


def caption_files(
    paths: Sequence[Place],
    server: str,
    rest: bool,
    model: Place | None,
    model_name: str,
    batch_size: int,
    timeout: float,
    attention: Place | None = None,
) -> None:
    """Print each file's path, a tab, and its caption.

    Args:
        paths: The files.
        server: `host:port`; the API's usual port of this machine if empty.
        rest: Ask over REST, not gRPC.
        model: An exported model to use in place of a server, or None.
        model_name: Name the server knows the model by.
        batch_size: Pictures a request.
        timeout: Seconds a request may take.
        attention: Folder that receives a picture for each file, `<file name>.attention.png`: what
            the model saw and where each word looked. None draws nothing.

    Raises:
        UserError: If a file cannot be read or is no picture, after the captions of the others; or
            if there is no such server or model.
        SystemExit: With status 1, if the server fails.
    """
    check_streams("output")
    if attention is not None:
        _prepare_folder(attention, paths)
    signature = CAPTION_PICTURE.name if attention is None else ALIGN_CAPTION.name
    problems = []
    with asked_model(server, rest, model, model_name, batch_size, timeout) as predictor:
        for each in caption_all(predictor, paths, batch_size, signature):
            if each.problem:
                problems.append(f"{each.path}: {each.problem}")
                continue
            line = f"{each.path}\t{' '.join(each.row[CAPTION].split())}\n"
            sys.stdout.buffer.write(line.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
            if attention is not None:
                save_attention(each.path, each.row, attention)
    if problems:
        raise UserError("\n".join(problems))


def caption_all(
    predictor: Predicts, paths: Sequence[Place], batch_size: int, signature: str
) -> Iterator[Captioned]:
    """Ask for the captions of files, of which some may be none."""
    for first in range(0, len(paths), batch_size):
        read = [(path, *read_file(path)) for path in paths[first : first + batch_size]]
        contents = [content for _, content, problem in read if not problem]
        rows = iter(predictor.predict({IMAGE_BYTES: contents}, signature) if contents else [])
        for path, _, problem in read:
            if problem:
                yield Captioned(path, problem, {})
                continue
            row = next(rows)
            code = int(row[ERROR_CODE])
            told = PROBLEMS.get(code, f"the model has the error code {code} for it")
            yield Captioned(path, told if code else None, row)


def read_file(path: Place) -> tuple[bytes, str | None]:
    """The content of a file, and what is wrong with it if it has none."""
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        return b"", "a folder, where a picture was expected; name its files"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return b"", f"cannot be read ({reason}); name a picture"
    return content, None if content else PROBLEMS[EMPTY]


def save_attention(path: Place, row: dict[str, Any], folder: Place) -> None:
    """Draw where each word of a caption looked.

    Args:
        path: The picture.
        row: Of the signature `align`.
        folder: Receives the drawing.

    Raises:
        UserError: If it cannot be written.
    """
    # Here, since drawing is imported in a second that other captions need not wait for.
    from pipeline.monitor.attention_maps import draw_maps
    from pipeline.monitor.event_log import png_of

    pieces = [piece for piece in row[TARGET_TOKENS] if piece]
    maps = np.array(row[ALIGNMENT], np.float32)[: len(pieces)]  # [T, R, C]
    png, _ = png_of(draw_maps(_seen(path), maps, pieces))
    try:
        write_bytes(folder / _drawing(path), png)
    except OSError as error:
        raise UserError(f"--save-attention {folder}: {error.strerror}; name another one") from None


def _seen(path: Place) -> np.ndarray:
    """The middle square of a picture, which is what a model sees: uint8 [S, S, 3]."""
    from PIL import Image, ImageOps

    from pipeline.prepare.pictures import read_picture

    # The model has taken it, so that it is not too large.
    picture = Image.fromarray(read_picture(str(path), sys.maxsize))
    return np.asarray(ImageOps.fit(picture, (_SIDE, _SIDE)))


def _drawing(path: Place) -> str:
    return f"{path.name}.attention.png"


def _prepare_folder(folder: Place, paths: Sequence[Place]) -> None:
    """Make the folder of drawings, and refuse files whose drawings would be one.

    Raises:
        UserError: If either cannot be.
    """
    names = collections.Counter(path.name for path in dict.fromkeys(paths))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise UserError(
            f"--save-attention {folder}: several files are called {twice[0]}, and would be drawn "
            f"into one; caption them one after the other, with a folder each"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--save-attention {folder}: cannot be made a folder ({error.strerror}); name another"
        ) from None
