"""Records to batches, `dataset → dataset`.

The order of the batches of an epoch is a pure function of the seed and the epoch, so a
training run that is resumed asks for the same epoch and skips what it has seen.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.batch_plan import BatchOptions, plan_batches
from pipeline.picture_rows import ClipRows, PictureRows
from pipeline.places import Place
from pipeline.prepare.picture_files import Kind, StoredPicture
from pipeline.prepare.records import (
    PICTURE,
    PICTURE_SHARD,
    SOURCE,
    SOURCE_TEXT,
    TARGET,
    TARGET_TEXT,
    feature_description,
)
from pipeline.tensorflow_files import record_files

_PARSED_AT_ONCE = 4096
_AHEAD = 8


# Inputs of a model by name and its labels, ragged int32 [B, (L)] or, of inputs, [B, (L), (K)] or
# tensors [B, ...] of which all rows have one shape.
Marked = tuple[dict[str, tf.RaggedTensor | tf.Tensor], tf.RaggedTensor]
# What a batch's source and target ids, ragged int32 without marks, are to a task; it is given the
# texts of the sources too, strings [B], where it asks for them, or its pictures, as
# `PictureRows.gather` gives them, or its clips, as `ClipRows.gather` does.
Mark = Callable[..., Marked]


class _Files(NamedTuple):
    """Record files."""

    paths: Any  # a list, or strings [F]
    compression: str  # of them all, as TensorFlow names it


class Pairs(NamedTuple):
    """Pairs of a split, in the order of its records."""

    source_ids: list[list[int]]  # without marks; empty lists where a task has no source
    target_ids: list[list[int]]  # without marks
    sources: list[str]
    targets: list[str]
    pictures: list[StoredPicture] = []  # empty where a task has none, nor clips

    def first(self, count: int) -> "Pairs":
        """The first pairs."""
        return Pairs(
            self.source_ids[:count],
            self.target_ids[:count],
            self.sources[:count],
            self.targets[:count],
            self.pictures[:count],
        )


class Epochs:
    """Batches of epochs, shuffled.

    What makes them is traced once for all epochs, of which a small corpus has hundreds.

    Args:
        shards: Record files.
        options: Budget, pool and shapes.
        mark: Of the task.
        seed: Of the experiment.
        texts: Give `mark` the texts of the sources.
        pictures: Give `mark` this of the records' pictures.
        together: Records about one picture follow each other, in place of those of like length.
        clips: The pictures are clips, whose frames the source ids number.
    """

    def __init__(
        self,
        shards: Sequence[Place],
        options: BatchOptions,
        mark: Mark,
        seed: int,
        texts: bool = False,
        pictures: Kind | None = None,
        together: bool = False,
        clips: bool = False,
    ):
        self._shards = shards
        self._seed = seed
        asked = _asked(texts, pictures)
        rows = _rows(shards, pictures, clips)

        def cut(seeds: tf.Tensor, pool: dict[str, tf.RaggedTensor]) -> tf.data.Dataset:
            return _cut(pool, options, mark, rows, together, seeds)

        def make(files: _Files, epoch: tf.Tensor, skip: tf.Tensor) -> tf.data.Dataset:
            return _seeded(files, options, seed, epoch, asked).flat_map(cut).skip(skip)

        self._make = tf.function(make)

    def batches(self, epoch: int, skip: int = 0) -> tf.data.Dataset:
        """The batches of one epoch.

        Args:
            epoch: From 0; each has an order of its own.
            skip: Batches left out at the start.

        Returns:
            A dataset of (inputs, labels), as `mark` makes them, int32, padded on the right.
        """
        files = _shuffled(self._shards, self._seed, epoch)
        numbers = (tf.constant(each, tf.int64) for each in (epoch, skip))
        made = self._make(files._replace(paths=tf.constant(files.paths, tf.string)), *numbers)
        made.made_by = self._make  # Which it calls while it is read.
        return _ahead(made)


def training_batches(
    shards: Sequence[Place],
    options: BatchOptions,
    mark: Mark,
    seed: int,
    epoch: int,
    skip: int = 0,
    **asks: Any,
) -> tf.data.Dataset:
    """Batches of one epoch; arguments as of `Epochs` and its `batches`."""
    return Epochs(shards, options, mark, seed, **asks).batches(epoch, skip)


def epoch_length(
    shards: Sequence[Place],
    options: BatchOptions,
    seed: int,
    epoch: int,
    texts: bool = False,
    pictures: Kind | None = None,
    together: bool = False,
    clips: bool = False,
) -> int:
    """How many batches `training_batches` gives, by planning them all; arguments as there."""
    asked = _asked(False, pictures if together else None)
    pools = _seeded(_shuffled(shards, seed, epoch), options, seed, epoch, asked)

    def count(seeds: tf.Tensor, pool: dict[str, tf.RaggedTensor]) -> tf.Tensor:
        return tf.shape(_plan(pool, options, together, seeds)[1], tf.int64)[0]

    return int(pools.map(count).reduce(tf.constant(0, tf.int64), tf.add))


def validation_batches(
    shards: Sequence[Place],
    options: BatchOptions,
    mark: Mark,
    texts: bool = False,
    pictures: Kind | None = None,
    together: bool = False,
    clips: bool = False,
) -> tf.data.Dataset:
    """The same batches every time, longest rows together; else as `training_batches`."""
    asked = _asked(texts, pictures)
    pools = _pools(_files(shards), options.shuffle_pool, asked)
    rows = _rows(shards, pictures, clips)
    return _ahead(pools.flat_map(lambda pool: _cut(pool, options, mark, rows, together, None)))


def count_batches(shards: Sequence[Place], options: BatchOptions) -> int:
    """Batches of an epoch; epochs differ by a few, since their pools differ."""
    pools = _pools(_files(shards), options.shuffle_pool)
    return sum(len(plan_batches(_lengths(pool).numpy(), options, None)[1]) for pool in pools)


def length_range(shards: Sequence[Place]) -> tuple[int, int]:
    """Least and greatest length of a pair's longer side, with its mark; 0 without pairs."""
    pools = _pools(_files(shards), _PARSED_AT_ONCE)
    longer = [_lengths(pool).numpy().max(1) for pool in pools]  # [P] each
    if not longer:
        return 0, 0
    return int(min(each.min() for each in longer)), int(max(each.max() for each in longer))


def read_pairs(shards: Sequence[Place], limit: int | None = None) -> Pairs:
    """The pairs of a split.

    Args:
        shards: Record files.
        limit: Pairs at most; all if None.
    """
    pairs = Pairs([], [], [], [], [])
    if not shards:
        return pairs
    records = _records(_files(shards))
    records = records.take(-1 if limit is None else limit).batch(_PARSED_AT_ONCE)
    spec = _spec(SOURCE, TARGET, SOURCE_TEXT, TARGET_TEXT, PICTURE, PICTURE_SHARD)
    for batch in records.map(lambda records: tf.io.parse_example(records, spec)):
        pairs.source_ids.extend(batch[SOURCE].to_list())
        pairs.target_ids.extend(batch[TARGET].to_list())
        pairs.sources.extend(text.decode() for text in batch[SOURCE_TEXT].numpy())
        pairs.targets.extend(text.decode() for text in batch[TARGET_TEXT].numpy())
        pairs.pictures.extend(
            StoredPicture(shards[0].parent, shard.decode(), int(row))
            for shard, row in zip(batch[PICTURE_SHARD].numpy(), batch[PICTURE].numpy(), strict=True)
            if row >= 0
        )
    return pairs


def _ahead(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Batches made while others are trained on.

    One thread keeps far ahead of any training. Automatic tuning is off: its own thread can hold
    up the end of an epoch for most of a minute.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(_AHEAD).with_options(options)


def _asked(texts: bool, pictures: Kind | None) -> tuple[str, ...]:
    """What pools hold beside the ids."""
    return (SOURCE_TEXT,) * texts + (PICTURE_SHARD, PICTURE) * (pictures is not None)


def _rows(shards: Sequence[Place], pictures: Kind | None, clips: bool) -> PictureRows | None:
    """Where pictures come from, if they are asked for."""
    if not pictures or not shards:
        return None
    kind = ClipRows if clips else PictureRows
    return kind(shards[0].parent, pictures)


def _spec(*names: str) -> dict:
    known = feature_description()
    return {name: known[name] for name in names}


def _files(shards: Sequence[Place]) -> _Files:
    paths = record_files(shards)
    return _Files(paths, "GZIP" if paths and paths[0].endswith(".gz") else "")


def _records(files: _Files) -> tf.data.Dataset:
    """Serialized records of the files, one file after another."""
    return tf.data.Dataset.from_tensor_slices(files.paths).flat_map(
        lambda path: tf.data.TFRecordDataset(path, compression_type=files.compression)
    )


def _pools(files: _Files, size: int, asked: Sequence[str] = ()) -> tf.data.Dataset:
    """Pools of `size` pairs, ragged int32 ids [P, (S)] and [P, (T)], without marks.

    With other features of the records as they are asked for.
    """
    spec = _spec(SOURCE, TARGET, *asked)

    def parse(records: tf.Tensor) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        parsed = tf.io.parse_example(records, spec)
        ids = {name: tf.cast(parsed[name], tf.int32) for name in (SOURCE, TARGET)}
        return {**parsed, **ids}

    return _records(files).batch(size).map(parse)


def _shuffled(shards: Sequence[Place], seed: int, epoch: int) -> _Files:
    """The files in the order of an epoch."""
    files = _files(shards)
    random.Random(f"{seed} {epoch}").shuffle(files.paths)
    return files


def _seeded(
    files: _Files,
    options: BatchOptions,
    seed: int,
    epoch: int | tf.Tensor,
    asked: Sequence[str],
) -> tf.data.Dataset:
    """The pools of an epoch's files, each after what seeds its plan, int64 [4]."""

    def seeded(
        index: tf.Tensor, pool: dict[str, tf.RaggedTensor]
    ) -> tuple[tf.Tensor, dict[str, tf.RaggedTensor]]:
        return tf.stack([seed, epoch, index, options.reader]), pool

    return _pools(files, options.shuffle_pool, asked).enumerate().map(seeded)


def _cut(
    pool: dict[str, tf.RaggedTensor],
    options: BatchOptions,
    mark: Mark,
    pictures: PictureRows | None,
    together: bool,
    seed: tf.Tensor | None,
) -> tf.data.Dataset:
    """Batches of a pool; in order of length without a seed."""
    order, batches = _plan(pool, options, together, seed)

    def batch(place: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        rows = order[place[0] : place[1]]  # [B]
        known = (SOURCE, TARGET, SOURCE_TEXT)
        given = [tf.gather(pool[name], rows) for name in known if name in pool]
        if pictures is not None:
            shards, first = (tf.gather(pool[name], rows) for name in (PICTURE_SHARD, PICTURE))
            given.append(pictures.gather(shards, first, given[0]))
        inputs, labels = mark(*given)
        longest = tf.reduce_max(tf.gather(_lengths(pool), rows))
        return _padded(inputs, labels, options, longest)

    places = tf.data.Dataset.from_tensor_slices(batches)
    return places.map(batch)


def _plan(
    pool: dict[str, tf.RaggedTensor],
    options: BatchOptions,
    together: bool,
    seed: tf.Tensor | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """What `plan_batches` gives of a pool, int64 [P] and [N, 2]."""

    def plan(
        lengths: np.ndarray, groups: np.ndarray, *seed: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        drawn = tuple(seed[0].tolist()) if seed else None
        return plan_batches(lengths, options, drawn, groups if together else None)

    # Once a pool, and thousands of tiny steps: NumPy takes milliseconds where a graph's loop
    # takes seconds from the training beside it.
    groups = _picture_numbers(pool) if together else tf.zeros([0], tf.int64)
    arguments = [_lengths(pool), groups] + ([] if seed is None else [seed])
    order, batches = tf.numpy_function(plan, arguments, (tf.int64, tf.int64), stateful=False)
    order.set_shape([None])
    batches.set_shape([None, 2])
    return order, batches


def _picture_numbers(pool: dict[str, tf.RaggedTensor]) -> tf.Tensor:
    """A number for each picture of a pool, int64 [P], the same wherever it comes."""
    shards = tf.unique(pool[PICTURE_SHARD], tf.int64).idx  # [P]
    return shards * tf.constant(2**32, tf.int64) + pool[PICTURE]


def _lengths(pool: dict[str, tf.RaggedTensor]) -> tf.Tensor:
    """Source and target lengths with their marks, int64 [P, 2]."""
    return tf.stack([pool[name].row_lengths() + 1 for name in (SOURCE, TARGET)], 1)


def _padded(
    inputs: dict[str, tf.RaggedTensor | tf.Tensor],
    labels: tf.RaggedTensor,
    options: BatchOptions,
    longest: tf.Tensor,
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """A batch with its rows padded to one length, and to few lengths where shapes are fixed.

    As many rows are made then as the budget allows of the longest side, int64 [].
    """
    if not options.fixed_shapes:
        return {name: _dense(ids) for name, ids in inputs.items()}, labels.to_tensor()
    rows = tf.maximum(options.batch_tokens // options.padded(longest), 1)
    padded = {name: _pad(_dense(ids), rows, options) for name, ids in inputs.items()}
    return padded, _pad(labels.to_tensor(), rows, options)


def _dense(values: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
    return values.to_tensor() if isinstance(values, tf.RaggedTensor) else values


def _pad(ids: tf.Tensor, rows: tf.Tensor, options: BatchOptions) -> tf.Tensor:
    """Ids [B, L, ...] with more rows and fixed lengths; rows of pads are as if not there.

    A length that is the same in all batches stays, such as that of the labels of texts.
    """
    shape = tf.shape(ids, tf.int64)
    fixed = [size is not None for size in ids.shape[1:]]
    wanted = tf.concat([[rows], tf.where(fixed, shape[1:], options.padded(shape[1:]))], 0)
    return tf.pad(ids, tf.stack([tf.zeros_like(shape), wanted - shape], 1))
