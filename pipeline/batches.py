"""Records to batches, `dataset → dataset`.

The order of the batches of an epoch is a pure function of the seed and the epoch, so a
training run that is resumed asks for the same epoch and skips what it has seen.
"""

import pathlib
import random
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from models.tokenizers import with_begin, with_end
from pipeline.batch_plan import BatchOptions, plan_batches
from pipeline.prepare.records import (
    SOURCE,
    SOURCE_TEXT,
    TARGET,
    TARGET_TEXT,
    feature_description,
)

_PARSED_AT_ONCE = 4096
_AHEAD = 8


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
        return _cut(pool, options, tf.stack([seed, epoch, index]))

    batches = pools.enumerate().flat_map(cut)
    return _ahead(batches.skip(skip))


def validation_batches(shards: Sequence[pathlib.Path], options: BatchOptions) -> tf.data.Dataset:
    """The same batches every time, longest rows together; else as `training_batches`."""
    pools = _pools([str(path) for path in shards], options.shuffle_pool)
    return _ahead(pools.flat_map(lambda pool: _cut(pool, options, None)))


def count_batches(shards: Sequence[pathlib.Path], options: BatchOptions) -> int:
    """Batches of an epoch; epochs differ by a few, since their pools differ."""
    pools = _pools([str(path) for path in shards], options.shuffle_pool)
    return sum(len(plan_batches(_lengths(pool).numpy(), options, None)[1]) for pool in pools)


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


def _ahead(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Batches made while others are trained on.

    One thread keeps far ahead of any training. Automatic tuning is off: its own thread can hold
    up the end of an epoch for most of a minute.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(_AHEAD).with_options(options)


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

    return _records(paths).batch(size).map(parse)


def _cut(
    pool: dict[str, tf.RaggedTensor], options: BatchOptions, seed: tf.Tensor | None
) -> tf.data.Dataset:
    """Batches of a pool; in order of length without a seed."""

    def plan(lengths: np.ndarray, *seed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return plan_batches(lengths, options, tuple(seed[0].tolist()) if seed else None)

    # Once a pool, and thousands of tiny steps: NumPy takes milliseconds where a graph's loop
    # takes seconds from the training beside it.
    arguments = [_lengths(pool)] + ([] if seed is None else [seed])
    order, batches = tf.numpy_function(plan, arguments, (tf.int64, tf.int64), stateful=False)
    order.set_shape([None])
    batches.set_shape([None, 2])

    def batch(place: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        rows = order[place[0] : place[1]]  # [B]
        return _marked(tf.gather(pool[SOURCE], rows), tf.gather(pool[TARGET], rows), options)

    places = tf.data.Dataset.from_tensor_slices(batches)
    return places.map(batch)


def _lengths(pool: dict[str, tf.RaggedTensor]) -> tf.Tensor:
    """Source and target lengths with their marks, int64 [P, 2]."""
    return tf.stack([pool[name].row_lengths() + 1 for name in (SOURCE, TARGET)], 1)


def _marked(
    source: tf.RaggedTensor, target: tf.RaggedTensor, options: BatchOptions
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """(inputs, labels) of ragged ids [B, (S)] and [B, (T)]."""
    marked = (with_end(source), with_begin(target), with_end(target))
    if not options.fixed_shapes:
        source_ids, target_ids, labels = (ids.to_tensor() for ids in marked)  # [B, S], [B, T]
    else:
        lengths = [options.padded(tf.cast(ids.bounding_shape()[1], tf.int64)) for ids in marked]
        rows = tf.maximum(options.batch_tokens // tf.maximum(lengths[0], lengths[1]), 1)
        source_ids, target_ids, labels = (
            _padded(ids.to_tensor(), rows, length)
            for ids, length in zip(marked, lengths, strict=True)
        )
    return {"source": source_ids, "target": target_ids}, labels


def _padded(ids: tf.Tensor, rows: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Ids padded to [rows, length]; rows without a word are as if they were not there."""
    shape = tf.cast(tf.shape(ids), rows.dtype)
    return tf.pad(ids, [[0, rows - shape[0]], [0, length - shape[1]]])
