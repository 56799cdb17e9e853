"""Which pairs of a pool go into which batch: pure functions of lengths and a seed."""

import dataclasses

import numpy as np

_SHAPE_STEP = 8


@dataclasses.dataclass(frozen=True)
class BatchOptions:
    """How batches are cut.

    Attributes:
        batch_tokens: Rows times the longer of source and target, marks and pads included, at
            most; a pair that is longer alone is a batch of its own.
        shuffle_pool: Pairs that are sorted by length and cut at a time.
        fixed_shapes: Pad lengths to multiples of eight and rows to what the budget allows, so
            that XLA compiles few programs.
        longest: Pairs whose longer side, with its mark, is longer are left out; none if None.
        reader: Number of the reader whose batches these are; each has an order of its own.
    """

    batch_tokens: int
    shuffle_pool: int
    fixed_shapes: bool = False
    longest: int | None = None
    reader: int = 0

    def of_reader(self, reader: int, readers: int) -> "BatchOptions":
        """How one of several readers cuts: all together have the budget and the pool of one."""
        return dataclasses.replace(
            self,
            batch_tokens=max(self.batch_tokens // readers, 1),
            shuffle_pool=max(self.shuffle_pool // readers, 1),
            reader=reader,
        )

    def padded(self, lengths: np.ndarray) -> np.ndarray:
        """Lengths as they are padded."""
        return -(-lengths // _SHAPE_STEP) * _SHAPE_STEP if self.fixed_shapes else lengths

    def rows(self, longest: int) -> int:
        """Rows that the budget allows of a length; one at least."""
        return max(self.batch_tokens // int(longest), 1)


def plan_batches(
    lengths: np.ndarray,
    options: BatchOptions,
    seed: tuple[int, ...] | None,
    groups: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Sort a pool by length and cut it by the budget.

    Rows of a batch have the same target length where the pool has enough of them, and source
    lengths as near as may be, so that nearly all positions are real.

    Args:
        lengths: [P, 2], source and target lengths with their marks.
        options: How batches are cut.
        seed: Of the order of pairs of like length and of the batches; None keeps the batches
            in order of length.
        groups: Int64 [P], such as a number for each picture: pairs of one number then follow
            each other, whatever their lengths. None if pairs go by length alone.

    Returns:
        The order of the pairs, int64 [P] or fewer where some are left out, and of each batch its
        first and its end in that order, int64 [N, 2].
    """
    kept = admitted(lengths, options.longest)  # [K]
    lengths = lengths[kept]
    if not len(lengths):
        return np.zeros([0], np.int64), np.zeros([0, 2], np.int64)
    generator = None if seed is None else np.random.Generator(np.random.Philox(_key(seed)))
    if groups is None:
        order = _by_length(lengths, generator)
    else:
        order = _by_group(groups[kept], generator)
    batches = _cut(options.padded(lengths[order].max(1)), options)
    return kept[order], generator.permutation(batches) if generator else batches


def _by_length(lengths: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
    source = lengths[:, 0].astype(np.float64)
    if generator:
        # Neighbours in source length change places too, so that batches differ by epoch.
        source += generator.uniform(0.0, 2.0, len(source))
    return np.lexsort([source, lengths[:, 1]])


def _by_group(groups: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
    """Whole groups in any order, and within each its rows in any; as they stand without one."""
    _, group_of = np.unique(groups, return_inverse=True)  # [K]
    if generator is None:
        return np.argsort(group_of, kind="stable")
    within = generator.permutation(len(group_of))  # [K]
    return np.lexsort([within, generator.permutation(group_of.max() + 1)[group_of]])


def admitted(lengths: np.ndarray, longest: int | None) -> np.ndarray:
    """Pairs that are not too long.

    Args:
        lengths: [P, 2], source and target lengths with their marks.
        longest: Greatest length of the longer side; no limit if None.

    Returns:
        Their places, int64 [K], in order.
    """
    if longest is None:
        return np.arange(len(lengths))
    return np.flatnonzero(lengths.max(1) <= longest)


def _cut(costs: np.ndarray, options: BatchOptions) -> np.ndarray:
    """First and end of each batch, each taking as many pairs as its longest allows."""
    ends = []
    start = 0
    while start < len(costs):
        highest = np.maximum.accumulate(costs[start : start + options.rows(costs[start])])
        fits = highest * np.arange(1, len(highest) + 1) <= options.batch_tokens
        start += max(int(fits.sum()), 1)
        ends.append(start)
    return np.stack([[0, *ends[:-1]], ends], 1).astype(np.int64)


def _key(seed: tuple[int, ...]) -> np.ndarray:
    """A Philox key, uint64 [2], of any integers."""
    return np.random.SeedSequence(seed).generate_state(2, np.uint64)
