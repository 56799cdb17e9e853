"""What is to be read: the inputs of all splits, looked at once, cut into blocks."""

import dataclasses
import itertools
from collections.abc import Iterator

from models.errors import UserError
from pipeline.experiment import CorpusFile, DataSection
from pipeline.places import Place
from pipeline.prepare.inspection import FileFacts, inspect_file
from pipeline.prepare.readers import make_reader
from pipeline.prepare.reading import Block, ByteRange, GroupReader
from pipeline.workspace import SPLITS


@dataclasses.dataclass(frozen=True)
class Input:
    """One input of a split.

    Attributes:
        index: Among all inputs of the experiment, from 0, in the order of the splits.
        split: The split that names it.
        position: Among the inputs of its split, from 0.
        corpus: The input as the experiment describes it.
        files: Facts about each of its files, in the reader's order.
    """

    index: int
    split: str
    position: int
    corpus: CorpusFile
    files: tuple[FileFacts, ...]

    @property
    def name(self) -> str:
        """The input's place in the experiment, as `train[0]`."""
        return f"{self.split}[{self.position}]"

    @property
    def lines(self) -> int:
        """Lines of any of its files."""
        return self.files[0].lines

    def blocks(self) -> list[Block]:
        """The input from its first line to its last."""
        parts = zip(*(self._ranges(facts) for facts in self.files), strict=True)
        return [
            Block(self.index, first, ranges)
            for first, ranges in zip(self.files[0].first_lines, parts, strict=True)
        ]

    @staticmethod
    def _ranges(facts: FileFacts) -> list[ByteRange]:
        return [
            ByteRange(facts.text_path, start, stop)
            for start, stop in itertools.pairwise(facts.offsets)
        ]


def list_inputs(data: DataSection) -> list[tuple[str, int, CorpusFile]]:
    """Split, position and description of every input, in the order of their indices."""
    return [
        (split, position, corpus)
        for split in SPLITS
        for position, corpus in enumerate(getattr(data, split))
    ]


def list_splits(data: DataSection) -> list[str]:
    """The splits the experiment asks for: those with inputs, and held-out shares."""
    return [
        split
        for split in SPLITS
        if getattr(data, split) or getattr(data.hold_out, split, 0.0) > 0.0
    ]


def inspect_inputs(data: DataSection, scratch: Place) -> Iterator[Input]:
    """Look at every file of every input.

    Args:
        data: The experiment's section.
        scratch: Folder for what has to be unpacked.

    Yields:
        The inputs in the order of their indices.

    Raises:
        UserError: If a file is not usable, or the two of a parallel input differ in their
            number of lines.
    """
    for index, (split, position, corpus) in enumerate(list_inputs(data)):
        reader = make_reader(corpus)
        starts = reader.starts if isinstance(reader, GroupReader) else None
        files = tuple(
            inspect_file(path, scratch / f"{index}-{number}.txt", starts)
            for number, path in enumerate(reader.paths())
        )
        inspected = Input(index, split, position, corpus, files)
        _check_equal_lines(inspected)
        yield inspected


def _check_equal_lines(inspected: Input) -> None:
    first, *others = inspected.files
    for other in others:
        if other.lines != first.lines:
            raise UserError(
                f"data.{inspected.name}: {first.path} has {first.lines} lines and {other.path} "
                f"has {other.lines}; line n of one translates line n of the other, so both "
                "need the same number. Find the line where they part"
            )
