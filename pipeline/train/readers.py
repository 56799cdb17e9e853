"""Readers of the training split: what a worker reads of each batch."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from models.errors import UserError
from pipeline.batch_plan import BatchOptions
from pipeline.places import Place
from pipeline.tasks.contract import Task
from pipeline.train.replicas import Batch, Replicas


class Epoch(NamedTuple):
    """What an epoch gives to learn from."""

    # The parts of a batch that this worker learns from, one at least; a row of pads, which is as
    # if not there, where its readers have come to their ends and others have not.
    batches: Iterator[list[Batch]]
    spec: Any  # of each part; None for sizes that differ


class Readers:
    """Deals record files to readers, and readers to workers.

    Each reader has files, a pool and a plan of its own, and a batch is what all readers give
    next: a part each, or nothing of one that has come to its end. So batches do not depend on who
    reads, and a worker opens the files of its own readers alone.

    A single reader's batches are read whole by all workers, who learn each from other rows.

    Args:
        task: Makes batches.
        shards: Record files of the training split.
        count: Readers.
        replicas: Of the run.

    Raises:
        UserError: If there are not as many for each worker, or not as many as files.
    """

    def __init__(self, task: Task, shards: Sequence[Place], count: int, replicas: Replicas):
        workers = replicas.cluster.workers
        if count > max(len(shards), 1):
            raise UserError(
                f"train.readers is {count}, and the training split has {len(shards)} record "
                f"files, of which each reader needs one; lower train.readers, or raise data.shards "
                f"and run `seqloom prepare` again"
            )
        if count > 1 and count % workers:
            raise UserError(
                f"train.readers is {count}, and there are {workers} workers, who need as many "
                f"each; set it to a multiple of {workers}, or to 1 for all to read whole batches"
            )
        self._task = task
        self._files = [list(shards[reader::count]) for reader in range(count)]
        self._replicas = replicas

    def epoch(self, options: BatchOptions, epoch: int, skip: int = 0) -> Epoch:
        """The batches of an epoch, as many on all workers.

        Args:
            options: How they are cut.
            epoch: From 0.
            skip: Batches left out at the start.
        """
        if len(self._files) == 1:
            whole = self._task.training_batches(self._files[0], options, epoch, skip)
            parts = self._replicas.split(whole)
            return Epoch(([part] for part in parts), parts.element_spec)
        own = [self._read(reader, options, epoch, skip) for reader in self._own()]
        spec = own[0].element_spec
        rounds: Iterator[tuple] = itertools.zip_longest(*own)
        if self._replicas.cluster.workers > 1:
            longest = self._longest(options, epoch)
            rest = itertools.repeat((None,) * len(own))
            rounds = itertools.islice(itertools.chain(rounds, rest), max(longest - skip, 0))
        given = ([part for part in parts if part is not None] for parts in rounds)
        return Epoch((parts or [_pads(spec)] for parts in given), spec)

    def count_batches(self, options: BatchOptions) -> int:
        """Batches of an epoch; epochs may differ by a few."""
        return max(
            self._task.count_batches(files, self._options(options, reader))
            for reader, files in enumerate(self._files)
        )

    def _own(self) -> range:
        """This worker's readers."""
        cluster = self._replicas.cluster
        return range(cluster.index, len(self._files), cluster.workers)

    def _read(self, reader: int, options: BatchOptions, epoch: int, skip: int) -> tf.data.Dataset:
        """What a reader gives."""
        own = self._options(options, reader)
        parts = self._task.training_batches(self._files[reader], own, epoch, skip)
        return self._replicas.split(parts, own=True)

    def _longest(self, options: BatchOptions, epoch: int) -> int:
        """Batches of an epoch, which no worker can know alone."""
        own = [
            self._task.epoch_length(self._files[reader], self._options(options, reader), epoch)
            for reader in self._own()
        ]
        return max(self._replicas.gather(max(own)))

    def _options(self, options: BatchOptions, reader: int) -> BatchOptions:
        return options.of_reader(reader, len(self._files))


def _pads(spec: tuple) -> Batch:
    """The smallest batch of a kind."""
    return tf.nest.map_structure(
        lambda each: tf.zeros([size or 1 for size in each.shape], each.dtype), spec
    )
