"""What happened to the pairs: small pieces that workers fill and the runner adds up."""

import bisect
import collections
import dataclasses
import functools
from collections.abc import Iterable

import numpy as np

FIRST_LINES = 5


@dataclasses.dataclass
class Drops:
    """Pairs of one input dropped from one split for one reason.

    Attributes:
        pairs: How many.
        first_lines: Numbers of the first `FIRST_LINES` of their lines, ascending.
    """

    pairs: int = 0
    first_lines: list[int] = dataclasses.field(default_factory=list)

    def add(self, other: "Drops") -> None:
        """Add what another part of the input dropped."""
        self.pairs += other.pairs
        self.first_lines = sorted(self.first_lines + other.first_lines)[:FIRST_LINES]


@dataclasses.dataclass
class Tally:
    """Pairs of one input in one split.

    Attributes:
        pairs_in: Lines read.
        pairs_out: Records written.
        truncated: Pairs whose ids were cut to the limit, later duplicates among them.
        dropped: What was dropped, by reason.
    """

    pairs_in: int = 0
    pairs_out: int = 0
    truncated: int = 0
    dropped: dict[str, Drops] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(Drops)
    )

    def add(self, other: "Tally") -> None:
        """Add what happened in another part of the input."""
        self.pairs_in += other.pairs_in
        self.pairs_out += other.pairs_out
        self.truncated += other.truncated
        for reason, drops in other.dropped.items():
            self.dropped[reason].add(drops)


@dataclasses.dataclass
class SideStatistics:
    """Pieces of one side of one split's records.

    Attributes:
        lengths: int64[longest + 1], records by their number of pieces.
        pieces: int64[vocabulary], pieces by id.
    """

    lengths: np.ndarray
    pieces: np.ndarray

    @property
    def records(self) -> int:
        """Sentences counted."""
        return int(self.lengths.sum())

    def add(self, other: "SideStatistics") -> None:
        """Add the pieces of other records."""
        self.lengths = _add_counts(self.lengths, other.lengths)
        self.pieces = _add_counts(self.pieces, other.pieces)


def _add_counts(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    shorter, longer = sorted((one, other), key=len)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


@dataclasses.dataclass(frozen=True)
class VocabularyFacts:
    """A trained vocabulary.

    Attributes:
        size: Pieces it reached.
        hash: Of the model file.
        sentences: Sentences it was trained on.
    """

    size: int
    hash: str
    sentences: int


@dataclasses.dataclass(frozen=True)
class ShardFacts:
    """A record file, or one of pictures.

    Attributes:
        rows: Records or pictures in it.
        bytes: Its size.
        hash: Of its bytes.
    """

    rows: int
    bytes: int
    hash: str


@dataclasses.dataclass(frozen=True)
class PictureFacts:
    """A picture file, or a clip, as it was read.

    Attributes:
        dropped: Why it cannot be used, a key of `reasons.DESCRIPTIONS`; None if it can.
        bytes: Its size; 0 if it is not there.
        hash: Of its bytes; None if it is not there.
        frames: Of a clip, how many can be read; None of a picture.
        broken: The frame of a clip for which it is dropped, where it is one frame.
    """

    dropped: str | None
    bytes: int
    hash: str | None
    frames: int | None = None
    broken: str | None = None


@dataclasses.dataclass
class Report:
    """All that a part of the pipeline has to say.

    Attributes:
        tallies: By index of the input and split.
        statistics: By split and side.
        vocabularies: By name.
        shards: By split and file name.
        picture_files: Likewise, of the files of their pictures.
        pictures: By index of the input and name of the picture in it.
        problems: What the user has to mend; any of them fails the run.
    """

    tallies: dict[tuple[int, str], Tally] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(Tally)
    )
    statistics: dict[tuple[str, str], SideStatistics] = dataclasses.field(default_factory=dict)
    vocabularies: dict[str, VocabularyFacts] = dataclasses.field(default_factory=dict)
    shards: dict[tuple[str, str], ShardFacts] = dataclasses.field(default_factory=dict)
    picture_files: dict[tuple[str, str], ShardFacts] = dataclasses.field(default_factory=dict)
    pictures: dict[tuple[int, bytes], PictureFacts] = dataclasses.field(default_factory=dict)
    problems: set[str] = dataclasses.field(default_factory=set)

    def drop(self, input_index: int, split: str, reason: str, line: int) -> None:
        """Note that a pair was dropped."""
        drops = self.tallies[input_index, split].dropped[reason]
        drops.pairs += 1
        bisect.insort(drops.first_lines, line)
        del drops.first_lines[FIRST_LINES:]

    def add(self, other: "Report") -> "Report":
        """Add another part's report to this one."""
        for key, tally in other.tallies.items():
            self.tallies[key].add(tally)
        for side, statistics in other.statistics.items():
            if side in self.statistics:
                self.statistics[side].add(statistics)
            else:
                self.statistics[side] = dataclasses.replace(statistics)
        self.vocabularies |= other.vocabularies
        self.shards |= other.shards
        self.picture_files |= other.picture_files
        self.pictures |= other.pictures
        self.problems |= other.problems
        return self

    def counters(self) -> dict[str, int]:
        """The tallies as Beam's counters hold them: by `<split> <what>`."""
        totals: dict[str, int] = collections.defaultdict(int)
        for (_, split), tally in self.tallies.items():
            numbers = {"in": tally.pairs_in, "out": tally.pairs_out, "truncated": tally.truncated}
            numbers |= {reason: drops.pairs for reason, drops in tally.dropped.items()}
            for name, number in numbers.items():
                totals[f"{split} {name}"] += number
        return dict(totals)

    def split_tally(self, split: str) -> Tally:
        """Pairs of one split from all inputs; its `first_lines` mean nothing."""
        total = Tally()
        for (_, of_split), tally in self.tallies.items():
            if of_split == split:
                total.add(tally)
        return total


def merge(reports: Iterable[Report]) -> Report:
    """Add up reports; the order in which they come does not matter."""
    return functools.reduce(Report.add, reports, Report())
