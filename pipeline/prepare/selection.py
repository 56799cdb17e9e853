"""From a block to the pairs worth tokenising, each with its split."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipeline.experiment import CorpusFile, DataSection
from pipeline.prepare.cleaning import check_characters, check_difference
from pipeline.prepare.hashing import SeededHash
from pipeline.prepare.readers import make_reader
from pipeline.prepare.reading import Block
from pipeline.prepare.reasons import Dropped
from pipeline.prepare.report import Report
from pipeline.prepare.sentences import picture_of

TRAIN = "train"

SplitOf = Callable[[int, bytes, bytes], str]  # of line, source and target

_RUN = 256


class Pair(NamedTuple):
    """A pair that passed the rules on characters.

    Attributes:
        split: The split it belongs to.
        line: Number of its line in the input, from 1.
        source: UTF-8.
        target: UTF-8.
    """

    split: str
    line: int
    source: bytes
    target: bytes


class PairSelection:
    """Reads blocks, cleans by characters and deals the pairs out to the splits.

    Args:
        data: The experiment's section.
        inputs: Split and description of each input, by index.
        seed: The experiment's seed.
        sides: Those that the task has; the others are left empty.
        by_picture: Sources are pictures or questions about them, and all that is about a picture
            goes to one split.
    """

    def __init__(
        self,
        data: DataSection,
        inputs: Sequence[tuple[str, CorpusFile]],
        seed: int,
        sides: Sequence[str] = ("source", "target"),
        by_picture: bool = False,
    ):
        self._readers = [make_reader(corpus) for _, corpus in inputs]
        self._splits = [
            hold_out_splits(data, seed, index, by_picture) if split == TRAIN else _always(split)
            for index, (split, _) in enumerate(inputs)
        ]
        self._own_splits = [split for split, _ in inputs]
        self._drop_identical = data.cleaning.drop_identical
        self._sides = sides
        self._keep_blank = data.order == "corpus"

    def pairs(self, block: Block, report: Report) -> Iterator[Pair]:
        """The pairs of a block that pass.

        Args:
            block: The block.
            report: Receives what came in and what was dropped. A line that cannot be read,
                and so not be dealt out, counts for the split that names its input.

        Yields:
            The others, in the order of their lines.
        """
        reader = self._readers[block.input]
        split_of = self._splits[block.input]
        for line, raw in reader.rows(block):
            split = self._own_splits[block.input]
            try:
                source, target = self._kept(*reader.sides(raw))
                split = split_of(line, source, target)
                if self._drop_identical and split == TRAIN:
                    check_difference(source, target)
            except Dropped as dropped:
                report.drop(block.input, split, dropped.reason, line + dropped.offset)
            else:
                yield Pair(split, line, source, target)
            report.tallies[block.input, split].pairs_in += 1

    def _kept(self, source: bytes, target: bytes) -> tuple[bytes, bytes]:
        """The sides of the task, held to the rules on characters."""
        sides = {"source": source, "target": target}
        check_characters(*(sides[name] for name in self._sides), keep_blank=self._keep_blank)
        return tuple(sides[name] if name in self._sides else b"" for name in sides)  # type: ignore[return-value]


def hold_out_splits(data: DataSection, seed: int, index: int, by_picture: bool = False) -> SplitOf:
    """A function that gives the split of a pair of a training input.

    It goes by the hash of one side, so that a sentence of that side is always in the same
    split. Where lines stay in their order it goes by runs of `_RUN` lines, so that what is held
    out is text that reads on too.

    Args:
        data: The experiment's section.
        seed: The experiment's seed.
        index: Of the input.
        by_picture: Of a source, its picture alone counts.
    """
    shares = data.hold_out
    if not shares.valid and not shares.test:
        return _always(TRAIN)
    place = SeededHash(seed, "hold out")

    def key(line: int, source: bytes, target: bytes) -> bytes:
        if data.order == "corpus":
            return f"{index} {line // _RUN}".encode()
        if by_picture:
            source = picture_of(source)
        # A text of a language model has no source, and would go wherever all others go.
        return source if shares.side == "source" and source else target

    def split_of(line: int, source: bytes, target: bytes) -> str:
        fraction = place.fraction(key(line, source, target))
        if fraction < shares.valid:
            return "valid"
        return "test" if fraction < shares.valid + shares.test else TRAIN

    return split_of


def _always(split: str) -> SplitOf:
    return lambda line, source, target: split
