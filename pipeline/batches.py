"""Records to batches, `dataset → dataset`.

The order of the batches of an epoch is a pure function of the seed and the epoch, so a
training run that is resumed asks for the same epoch and skips what it has seen.
"""

import dataclasses
import pathlib
import random
from collections.abc import Sequence

import tensorflow as tf

from models.tokenizers import with_begin, with_end
from pipeline.prepare.records import (
    SOURCE,
    SOURCE_TEXT,
    TARGET,
    TARGET_TEXT,
    feature_description,
)

_PARSED_AT_ONCE = 4096
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
    """

    batch_tokens: int
    shuffle_pool: int
    fixed_shapes: bool = False


def training_batches(
    shards: Sequence[pathlib.Path], options: BatchOptions, seed: int, epoch: int, skip: int = 0
) -> tf.data.Dataset:
    """Batches of one epoch, shuffled.

    Args:
        shards: Record files.
        options: Budget, pool and shapes.
        seed: Of the experiment.
        epoch: From 0; each has an order of its own.
        skip: Batches left out at the start.

    Returns:
        A dataset of (inputs, labels): int32 `source` [B, S] and `target` [B, T] in a dict, and
        labels [B, T].
    """
    paths = [str(path) for path in shards]
    random.Random(f"{seed} {epoch}").shuffle(paths)
    pools = _pools(paths, options.shuffle_pool)

    def cut(index: tf.Tensor, pool: dict[str, tf.RaggedTensor]) -> tf.data.Dataset:
        state = tf.stack([tf.cast(seed, tf.int64) + 1, epoch * 1_000_003 + index])
        return _cut(pool, options, state)

    batches = pools.enumerate().flat_map(cut)
    return batches.skip(skip).prefetch(tf.data.AUTOTUNE)


def validation_batches(shards: Sequence[pathlib.Path], options: BatchOptions) -> tf.data.Dataset:
    """The same batches every time, longest rows together; else as `training_batches`."""
    pools = _pools([str(path) for path in shards], options.shuffle_pool)
    return pools.flat_map(lambda pool: _cut(pool, options, None)).prefetch(tf.data.AUTOTUNE)


def count_batches(shards: Sequence[pathlib.Path], options: BatchOptions) -> int:
    """Batches of an epoch; epochs differ by a few, since their pools differ."""
    pools = _pools([str(path) for path in shards], options.shuffle_pool)
    return sum(int(tf.size(starts)) - 1 for starts in pools.map(lambda p: _plan(p, options)[1]))


def read_pairs(
    shards: Sequence[pathlib.Path], limit: int | None = None
) -> tuple[list[list[int]], list[str], list[str]]:
    """Source ids, source texts and target texts of a split, in the order of its records.

    Args:
        shards: Record files.
        limit: Pairs at most; all if None.
    """
    if not shards:
        return [], [], []
    records = _records([str(path) for path in shards])
    records = records.take(-1 if limit is None else limit).batch(_PARSED_AT_ONCE)
    spec = _spec(SOURCE, SOURCE_TEXT, TARGET_TEXT)
    ids: list[list[int]] = []
    sources: list[str] = []
    targets: list[str] = []
    for batch in records.map(lambda records: tf.io.parse_example(records, spec)):
        ids.extend(batch[SOURCE].to_list())
        sources.extend(text.decode() for text in batch[SOURCE_TEXT].numpy())
        targets.extend(text.decode() for text in batch[TARGET_TEXT].numpy())
    return ids, sources, targets


def _spec(*names: str) -> dict:
    known = feature_description()
    return {name: known[name] for name in names}


def _records(paths: Sequence[str]) -> tf.data.Dataset:
    """Serialized records of the files, one file after another."""
    return tf.data.Dataset.from_tensor_slices(list(paths)).flat_map(
        lambda path: tf.data.TFRecordDataset(
            path, compression_type="GZIP" if paths[0].endswith(".gz") else ""
        )
    )


def _pools(paths: Sequence[str], size: int) -> tf.data.Dataset:
    """Pools of `size` pairs, ragged int32 ids [P, (S)] and [P, (T)], without marks."""
    spec = _spec(SOURCE, TARGET)

    def parse(records: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        parsed = tf.io.parse_example(records, spec)
        return {name: tf.cast(parsed[name], tf.int32) for name in (SOURCE, TARGET)}

    return _records(paths).batch(size).map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def _cut(
    pool: dict[str, tf.RaggedTensor], options: BatchOptions, seed: tf.Tensor | None
) -> tf.data.Dataset:
    """Batches of a pool: sorted by length, cut by the budget, and, given a seed, shuffled."""
    order, starts = _plan(pool, options, seed)
    count = tf.size(starts) - 1
    batches = tf.data.Dataset.range(tf.cast(count, tf.int64))
    if seed is not None:
        turn = tf.argsort(tf.random.stateless_uniform([count], seed))  # [N]
        batches = batches.map(lambda index: tf.cast(turn[index], tf.int64))

    def batch(index: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        rows = order[starts[index] : starts[index + 1]]  # [B]
        return _marked(tf.gather(pool[SOURCE], rows), tf.gather(pool[TARGET], rows), options)

    return batches.map(batch, num_parallel_calls=tf.data.AUTOTUNE)


def _plan(
    pool: dict[str, tf.RaggedTensor], options: BatchOptions, seed: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The order of a pool's pairs, int32 [P], and where its batches start, int32 [N + 1]."""
    lengths = tf.stack(
        [tf.cast(pool[name].row_lengths(), tf.int32) + 1 for name in (SOURCE, TARGET)], 1
    )  # [P, 2], the mark included
    order = _by_length(lengths, seed)
    costs = _rounded(tf.reduce_max(tf.gather(lengths, order), 1), options)  # [P]
    return order, _starts(costs, options.batch_tokens)


def _by_length(lengths: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
    """Order of pairs of lengths [P, 2] by target, then source length; ties as the seed says."""
    keys = tf.cast(lengths[:, 1] * 65_536 + lengths[:, 0] * 2, tf.float64)  # [P]
    if seed is not None:
        # Neighbours in source length change places too, so that batches differ by epoch.
        keys += tf.random.stateless_uniform(tf.shape(keys), seed, 0.0, 4.0, tf.float64)
    return tf.argsort(keys, stable=True)


def _starts(costs: tf.Tensor, budget: int) -> tf.Tensor:
    """Where batches start in a sorted pool, and its end, int32 [N + 1].

    Each batch takes as many pairs as its longest allows.

    Args:
        costs: Int32 [P], positions a pair takes.
        budget: Positions a batch may take.
    """
    total = tf.size(costs)
    starts = tf.TensorArray(tf.int32, 1, dynamic_size=True).write(0, 0)

    def rows_from(start: tf.Tensor) -> tf.Tensor:
        at_most = tf.maximum(budget // costs[start], 1)
        highest = _running_maximum(costs[start : start + at_most])  # [W]
        fits = highest * tf.range(1, tf.size(highest) + 1) <= budget  # [W]
        return tf.maximum(tf.reduce_sum(tf.cast(fits, tf.int32)), 1)

    def advance(start: tf.Tensor, starts: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        start += rows_from(start)
        return start, starts.write(starts.size(), start)

    _, starts = tf.while_loop(lambda start, _: start < total, advance, (tf.constant(0), starts))
    return starts.stack()


def _running_maximum(values: tf.Tensor) -> tf.Tensor:
    """The largest of `values` [W] up to and with each place, by doubling strides."""

    def double(stride: tf.Tensor, highest: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        behind = tf.pad(highest[:-stride], [[stride, 0]])  # [W]
        return stride * 2, tf.maximum(highest, behind)

    _, highest = tf.while_loop(
        lambda stride, _: stride < tf.size(values),
        double,
        (tf.constant(1), values),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )
    return highest


def _rounded(lengths: tf.Tensor, options: BatchOptions) -> tf.Tensor:
    """Lengths as they will be padded to."""
    if not options.fixed_shapes:
        return lengths
    return -(-lengths // _SHAPE_STEP) * _SHAPE_STEP


def _marked(
    source: tf.RaggedTensor, target: tf.RaggedTensor, options: BatchOptions
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """(inputs, labels) of ragged ids [B, (S)] and [B, (T)]."""
    marked = (with_end(source), with_begin(target), with_end(target))
    if not options.fixed_shapes:
        source_ids, target_ids, labels = (ids.to_tensor() for ids in marked)  # [B, S], [B, T]
    else:
        lengths = [_rounded(tf.cast(ids.bounding_shape()[1], tf.int32), options) for ids in marked]
        rows = tf.maximum(options.batch_tokens // tf.maximum(lengths[0], lengths[1]), 1)
        source_ids, target_ids, labels = (
            _padded(ids.to_tensor(), rows, length)
            for ids, length in zip(marked, lengths, strict=True)
        )
    return {"source": source_ids, "target": target_ids}, labels


def _padded(ids: tf.Tensor, rows: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Ids padded to [rows, length]; rows without a word are as if they were not there."""
    shape = tf.shape(ids)
    return tf.pad(ids, [[0, rows - shape[0]], [0, length - shape[1]]])
