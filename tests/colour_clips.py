"""Clips of plain colours, a letter a frame."""

import io

from PIL import Image

COLOURS = {"r": "red", "b": "blue"}


def content_of(letter, kind="PNG"):
    """The file of a frame."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64), COLOURS[letter]).save(file, kind)
    return file.getvalue()


def write_clip(folder, text):
    """A clip of one frame a letter."""
    folder.mkdir(parents=True)
    for number, letter in enumerate(text):
        (folder / f"{number}.png").write_bytes(content_of(letter))
