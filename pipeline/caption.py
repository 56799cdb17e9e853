"""`seqloom caption`: files of pictures in, a line with a caption out for each."""

import pathlib
import sys
from collections.abc import Iterator, Sequence

from models.errors import UserError
from pipeline.predict import Predicts
from pipeline.translate import asked_model, check_streams
from serving.signatures import CAPTION, CAPTION_PICTURE, ERROR_CODE, IMAGE_BYTES


def caption_files(
    paths: Sequence[pathlib.Path],
    server: str,
    rest: bool,
    model: pathlib.Path | None,
    model_name: str,
    batch_size: int,
    timeout: float,
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

    Raises:
        UserError: If a file cannot be read or is no picture, after the captions of the others; or
            if there is no such server or model.
        SystemExit: With status 1, if the server fails.
    """
    check_streams("output")
    files = [(path, read_file(path)) for path in paths]
    broken = []
    with asked_model(server, rest, model, model_name, batch_size, timeout) as predictor:
        for path, caption in caption_all(predictor, files, batch_size):
            if caption is None:
                broken.append(str(path))
            else:
                line = f"{path}\t{' '.join(caption.split())}\n"
                sys.stdout.buffer.write(line.encode("utf-8", "replace"))
                sys.stdout.buffer.flush()
    if broken:
        raise UserError(
            f"{', '.join(broken)}: no picture that the model can read, or one too large; expected "
            f"a whole JPEG, PNG, GIF or BMP file"
        )


def read_file(path: pathlib.Path) -> bytes:
    """The content of a file.

    Raises:
        UserError: If it cannot be read or has none.
    """
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise UserError(f"{path}: a folder, where a picture was expected; name its files") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); name a picture") from None
    if not content:
        raise UserError(f"{path}: an empty file, where a picture was expected")
    return content


def caption_all(
    predictor: Predicts, files: Sequence[tuple[pathlib.Path, bytes]], batch_size: int
) -> Iterator[tuple[pathlib.Path, str | None]]:
    """Caption of each file; None where the model has an error code."""
    for first in range(0, len(files), batch_size):
        batch = files[first : first + batch_size]
        inputs = {IMAGE_BYTES: [content for _, content in batch]}
        rows = predictor.predict(inputs, CAPTION_PICTURE.name)
        for (path, _), row in zip(batch, rows, strict=True):
            yield path, None if row[ERROR_CODE] else row[CAPTION]
