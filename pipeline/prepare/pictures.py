"""Picture files: where they lie, and their pixels, held to being whole and not too large."""

import io
import os
import struct
import warnings
import zlib
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

from pipeline.experiment import CorpusFile, PictureOptions
from pipeline.places import UrlPath, is_url
from pipeline.prepare.reasons import BROKEN_PICTURE, HUGE_PICTURE, NO_PICTURE, Dropped
from pipeline.prepare.report import PictureFacts
from pipeline.workspace import stream_fingerprint

# What Pillow raises at bytes that are no whole picture.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)


def picture_path(corpus: CorpusFile, name: bytes) -> str:
    """Path or URL of a picture that an input names."""
    text = os.fsdecode(name)
    return text if is_url(text) else os.path.join(picture_folder(corpus), text)


def picture_folder(corpus: CorpusFile) -> str:
    """Path or URL of the folder of an input's pictures."""
    return corpus.images if corpus.images is not None else os.path.dirname(corpus.path or "")


def open_file(path: str) -> BinaryIO | None:
    """A file of a picture or a clip, to be read at any place; None if there is none.

    Args:
        path: Its path or URL.

    Raises:
        OSError: If it is at a URL where nothing answers. That says nothing of the file, and must
            not be taken for its absence.
    """
    if is_url(path):
        try:
            return UrlPath(path).open()
        except (FileNotFoundError, ValueError):
            return None
    try:
        # A pipe would be waited for.
        return open(path, "rb") if os.path.isfile(path) else None
    except (OSError, ValueError):
        return None


def read_picture(path: str, max_pixels: int) -> np.ndarray:
    """Pixels of a picture as it is to be seen.

    Of an animation it is the first frame. It is turned as its EXIF says, lies on white where it
    is transparent, and other colours become RGB. Its size is checked before it is decoded.

    Args:
        path: The file, or its URL.
        max_pixels: Pixels at most.

    Returns:
        Uint8 [H, W, 3].

    Raises:
        Dropped: If there is no such file, it is no whole picture, or too large.
    """
    file = _open_picture(path)
    if file is None:
        raise Dropped(NO_PICTURE)
    with file:
        return _decoded(file, max_pixels)


def _open_picture(path: str) -> BinaryIO | None:
    """Its file; of one at a URL all bytes, so that what fails on the way is not its own fault."""
    file = open_file(path)
    if file is None or not is_url(path):
        return file
    with file:
        return io.BytesIO(file.read())


def _decoded(file: BinaryIO, max_pixels: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of large ones by a limit of its own.
        try:
            with Image.open(file) as picture:
                if picture.width * picture.height > max_pixels:
                    raise Dropped(HUGE_PICTURE)
                picture.load()
                return _pixels(ImageOps.exif_transpose(picture))
        except Image.DecompressionBombError:
            raise Dropped(HUGE_PICTURE) from None
        except _BROKEN:
            raise Dropped(BROKEN_PICTURE) from None


def _pixels(picture: Image.Image) -> np.ndarray:
    if picture.mode.startswith("I"):  # 16 bits of grey, which Pillow would cut at 255.
        grey = np.asarray(picture).astype(np.int64) >> 8
        picture = Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return np.asarray(picture.convert("RGB"))


class PictureCheck:
    """Holds the pictures of pairs to what can be read, each picture once.

    Args:
        inputs: Split and description of each input, by index.
        options: Limits.
    """

    def __init__(self, inputs: Sequence[tuple[str, CorpusFile]], options: PictureOptions):
        self._inputs = inputs
        self._options = options
        self._found: dict[tuple[int, bytes], PictureFacts] = {}

    def __call__(self, index: int, name: bytes) -> PictureFacts:
        """What the picture of a name in an input is."""
        if (index, name) not in self._found:
            path = picture_path(self._inputs[index][1], name)
            self._found[index, name] = inspect_picture(path, self._options.max_pixels)
        return self._found[index, name]


def inspect_picture(path: str, max_pixels: int) -> PictureFacts:
    """Read a picture to see what is wrong with it, if anything."""
    file = _open_picture(path)
    if file is None:
        return PictureFacts(NO_PICTURE, 0, None)
    reason = None
    with file:
        try:
            _decoded(file, max_pixels)
        except Dropped as dropped:
            reason = dropped.reason
        return PictureFacts(reason, *_size_and_hash(file))


def size_and_hash(path: str) -> tuple[int, str | None]:
    """Size and hash of a file's bytes; 0 and None of one that cannot be read."""
    file = open_file(path)
    if file is None:
        return 0, None
    with file:
        return _size_and_hash(file)


def _size_and_hash(file: BinaryIO) -> tuple[int, str]:
    file.seek(0)
    digest = stream_fingerprint(file)
    return file.tell(), digest
