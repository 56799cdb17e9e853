"""Captions of pictures in one JSON document, as COCO has them (Chen et al. 2015)."""

import json
from collections.abc import Iterator
from typing import Any

from models.errors import UserError
from pipeline.prepare.reading import Block, GroupReader, read_lines
from pipeline.prepare.reasons import MISSING_KEY, NOT_A_STRING, Dropped


def never_starts(before: bytes, line: bytes) -> bool:
    """A document is one record, however many lines it has."""
    return False


class CocoReader(GroupReader):
    """One JSON document: a pair is the file name of a picture and one of its captions.

    It is COCO's own form, an object of `images` and `annotations`, or a list of objects, each
    with a `file` and its `captions`. Pairs are numbered as their captions follow each other.
    """

    starts = staticmethod(never_starts)

    def rows(self, block: Block) -> Iterator[tuple[int, Any]]:
        """The pairs, and what is none."""
        try:
            document = json.loads(b"\n".join(read_lines(block.ranges[0])))
            found = list(_pairs(document))
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            raise UserError(
                f"{self.corpus.path}: not captions as COCO has them ({type(error).__name__}: "
                f"{error}); expected a JSON object of images and annotations, or a list of "
                f"objects of file and captions"
            ) from None
        yield from enumerate(found, 1)

    def sides(self, lines):
        """File name and caption; its white space, line ends too, becomes single spaces."""
        name, caption = lines
        if name is None:
            raise Dropped(MISSING_KEY)
        if not isinstance(name, str) or not isinstance(caption, str):
            raise Dropped(NOT_A_STRING)
        text = " ".join(caption.split())
        return name.encode("utf-8", "surrogatepass"), text.encode("utf-8", "surrogatepass")


def _pairs(document: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, list):
        for picture in document:
            for caption in picture["captions"]:
                yield picture["file"], caption
        return
    names = {picture["id"]: picture["file_name"] for picture in document["images"]}
    for annotation in document["annotations"]:
        yield names.get(annotation["image_id"]), annotation["caption"]
