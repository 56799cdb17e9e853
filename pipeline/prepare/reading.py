"""Reading a corpus: blocks of lines, and the contract of what turns them into pairs."""

import abc
import dataclasses
from collections.abc import Iterator
from typing import Any

from models.errors import UserError
from pipeline.experiment import CorpusFile
from pipeline.places import place


@dataclasses.dataclass(frozen=True)
class ByteRange:
    """Whole lines of a plain file.

    Attributes:
        path: The file.
        start: Offset of the first line's first byte.
        stop: Offset after the last line's last byte.
    """

    path: str
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class Block:
    """The same few thousand lines of each file of an input: one element of the pipeline.

    Attributes:
        input: Index of the input among all inputs of the experiment.
        first_line: Number of the first line, from 1.
        ranges: One range a file of the input, all with the same number of lines.
    """

    input: int
    first_line: int
    ranges: tuple[ByteRange, ...]

    @property
    def name(self) -> str:
        """A name no other block has."""
        return f"{self.input}-{self.first_line}"


def read_lines(part: ByteRange) -> list[bytes]:
    r"""The lines of a range without their ends.

    Lines end at `\n` alone, and one `\r` before it belongs to the end. No other character
    that some programs break lines at (`\x0b`, `\x0c`, U+0085, U+2028, ...) ends a line.

    Raises:
        UserError: If the file has become shorter.
    """
    with place(part.path).open("rb") as file:
        file.seek(part.start)
        text = file.read(part.stop - part.start)
    if len(text) < part.stop - part.start:
        raise UserError(
            f"{part.path}: became shorter while it was read; run `seqloom prepare` again"
        )
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


class Reader(abc.ABC):
    """Contract of a corpus format.

    A reader names its files and turns one line of each into the two sides of a pair, as
    bytes that may yet turn out not to be UTF-8. Line `n` of every file belongs to pair `n`.
    Formats whose records take many lines are `GroupReader`s.

    Args:
        corpus: The input as the experiment describes it.
    """

    def __init__(self, corpus: CorpusFile):
        self.corpus = corpus

    @property
    def separators(self) -> tuple[str, ...]:
        """Characters of `models.separators` that it puts into sources."""
        return ()

    @abc.abstractmethod
    def paths(self) -> tuple[str, ...]:
        """The files of the input, in the order in which `sides` takes their lines."""

    @abc.abstractmethod
    def sides(self, lines: Any) -> tuple[bytes, bytes]:
        """Source and target of one pair.

        Args:
            lines: As `rows` gives it: one line of each file, without its end.

        Raises:
            Dropped: If the line does not have the form of the format.
        """

    def rows(self, block: Block) -> Iterator[tuple[int, Any]]:
        """What `sides` takes for each pair of a block, with its line number in the file."""
        columns = [read_lines(part) for part in block.ranges]
        return enumerate(zip(*columns, strict=True), block.first_line)


def starts_after_blank(before: bytes, line: bytes) -> bool:
    """Whether a line comes after a blank one and is not blank itself."""
    return not before.strip() and bool(line.strip())


class GroupReader(Reader):
    """Contract of a format whose records take many lines of one file.

    Blocks are cut where `starts` lets a record begin. `groups` gives the records of a block;
    a member whose records make several pairs each replaces `rows`.
    """

    def paths(self):
        """The one file."""
        return (self.corpus.path,)

    @staticmethod
    @abc.abstractmethod
    def starts(before: bytes, line: bytes) -> bool:
        """Whether a record begins at a line.

        Args:
            before: The line before it, without its end.
            line: The line, without its end.
        """

    def groups(self, block: Block) -> Iterator[tuple[int, list[bytes]]]:
        """The records of a block: the number of the first line, and the lines."""
        lines = read_lines(block.ranges[0])
        first = 0
        for index in range(1, len(lines) + 1):
            if index == len(lines) or self.starts(lines[index - 1], lines[index]):
                yield block.first_line + first, lines[first:index]
                first = index

    def rows(self, block: Block) -> Iterator[tuple[int, Any]]:
        """The records as `sides` takes them, each with the number of its first line."""
        yield from self.groups(block)
