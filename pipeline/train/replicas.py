"""Replicas of a run: where they are, which rows each has, and what they agree on.

A step is that of one process on the whole batch: replicas learn from their own rows of what their
worker reads, and all workers do the same number of steps.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.errors import UserError

_WORKER_TYPES = ("chief", "worker")
_SEED_STATE = "seed_generator_state"  # how Keras calls the state of a generator
_SEEDS_APART = 1_000_003
_BYTES_OF_INT64 = 8

Batch = tuple[dict[str, tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Which of a run's workers this process is.

    Attributes:
        workers: How many there are.
        index: Of this one; the chief, which alone writes and prints, is 0.
    """

    workers: int = 1
    index: int = 0

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes and prints."""
        return self.index == 0

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> "Cluster":
        """The cluster that `TF_CONFIG` describes; one worker without it.

        Raises:
            UserError: If it is no such description, or has jobs other than chief and workers.
        """
        text = environment.get("TF_CONFIG", "")
        if not text:
            return cls()
        try:
            config = json.loads(text)
            addresses = config["cluster"]
            kind, index = config["task"]["type"], int(config["task"]["index"])
            counts = {name: len(addresses.get(name, ())) for name in _WORKER_TYPES}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(
                f"TF_CONFIG is {text!r}; expected JSON such as "
                f'{{"cluster": {{"worker": ["host:port", ...]}}, '
                f'"task": {{"type": "worker", "index": 0}}}}, or unset it to train by one process'
            ) from None
        others = sorted(set(addresses) - set(_WORKER_TYPES))
        if others or kind not in _WORKER_TYPES:
            raise UserError(
                f"TF_CONFIG names the job {(others or [kind])[0]!r}; training has workers only, of "
                f"which the first is the chief"
            )
        if not 0 <= index < counts[kind]:
            raise UserError(
                f"TF_CONFIG says this is {kind} {index}, and names {counts[kind]} of them; give "
                f"the task an index from 0 that its cluster has"
            )
        before = counts["chief"] if kind == "worker" else 0
        return cls(sum(counts.values()), before + index)


def make_strategy(cluster: Cluster) -> tf.distribute.Strategy:
    """The strategy for workers, for several GPUs of one machine, or for one device.

    A strategy whose scope is entered is kept. For workers it must be made before TensorFlow
    runs its first operation.
    """
    if tf.distribute.has_strategy():
        return tf.distribute.get_strategy()
    if cluster.workers > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return _mirrored()
    return tf.distribute.get_strategy()


@functools.cache
def _mirrored() -> tf.distribute.Strategy:
    """The strategy for several GPUs, one a process.

    TensorFlow numbers the sums of each strategy from the same number, and takes one of a second
    strategy, that of another training, for one of the first.
    """
    return tf.distribute.MirroredStrategy()


class Replicas:
    """Hands batches to replicas, and lets workers agree.

    Args:
        strategy: Of the run.
        cluster: Which worker this is.
    """

    def __init__(self, strategy: tf.distribute.Strategy, cluster: Cluster):
        self.strategy = strategy
        self.cluster = cluster
        self.count = strategy.num_replicas_in_sync
        self._local = self.count // cluster.workers

    def split(self, batches: tf.data.Dataset, own: bool = False) -> tf.data.Dataset:
        """Batches as the steps take them: as they are for one replica, else parted by replica.

        Args:
            batches: Of (inputs, labels), each [B, ...], the same on all workers.
            own: They are this worker's alone.

        Returns:
            Of (inputs, labels), each [R, B', ...] where there are many replicas: a part for each
            of them, or, of batches that are this worker's alone, for each of its own. Rows of
            pads, which are as if not there, make the parts of one size.
        """
        if self.count == 1:
            return batches
        return batches.map(functools.partial(_parts, self._local if own else self.count))

    def gather(self, value: Any) -> list[Any]:
        """What each worker gives, on all workers, in their order.

        Args:
            value: Of this worker, JSON-like; all others have to come here too.
        """
        if self.cluster.workers == 1:
            return [value]
        # Workers sum and gather numbers alone: a line of JSON, with spaces to whole int64s.
        line = json.dumps(value).encode() + b"\n"
        length = -(-len(line) // _BYTES_OF_INT64) * _BYTES_OF_INT64

        def give(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            given = line.ljust(length) if self._is_first(context) else b" " * _BYTES_OF_INT64
            return tf.constant(np.frombuffer(given, np.int64))

        own = self.strategy.experimental_distribute_values_from_function(give)
        gathered = self.strategy.experimental_local_results(self._gather(own))[0]
        lines = gathered.numpy().tobytes().decode().split("\n")
        return [json.loads(each) for each in lines if each.strip()]

    def chiefs(self, value: float) -> float:
        """A number of the chief's, on all workers."""
        if self.cluster.workers == 1:
            return value
        return self._sum(value if self.cluster.is_chief else 0.0)

    def check_same_step(self, step: int, folder: str) -> None:
        """Refuse to go on where workers have restored different checkpoints.

        Args:
            step: That this worker stands at.
            folder: Of the checkpoints.

        Raises:
            UserError: On all workers.
        """
        if self.cluster.workers == 1:
            return
        chiefs = self.chiefs(float(step))
        if self._sum(abs(step - chiefs)):
            raise UserError(
                f"{folder}: worker {self.cluster.index} stands at step {step} and the chief at "
                f"{int(chiefs)}; the workspace must be one folder that all workers share"
            )

    def of_worker(self, values: Sequence[float], dtype: tf.DType = tf.float64) -> Any:
        """Numbers of this worker's as a step's argument, [N]; its first replica has them."""

        def give(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            is_first = self._is_first(context)
            return tf.constant(values if is_first else [0.0] * len(values), dtype)

        return self.strategy.experimental_distribute_values_from_function(give)

    def part_seeds(self, model: keras.Model) -> None:
        """Let replicas draw each its own dropout masks.

        Keras's generators are copied to all replicas in one state. A checkpoint keeps the first
        replica's, which stays as it is, so this comes after each restore.

        Args:
            model: With the generators.
        """
        if self.count == 1:
            return
        states = [each.value for each in model.variables if each.path.endswith(_SEED_STATE)]

        def shift() -> None:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            for state in states:  # int64 [2]: a seed, and how many were drawn from it
                apart = tf.stack([tf.cast(replica, state.dtype) * _SEEDS_APART, 0])
                state.assign_add(apart)

        @tf.function
        def part() -> None:
            self.strategy.run(shift)

        part()

    @tf.function(reduce_retracing=True)
    def _gather(self, own: Any) -> Any:
        """All replicas' numbers, int64 [N], one after another, of each its own, int64 [L]."""

        def gather(numbers: tf.Tensor) -> tf.Tensor:
            here = tf.identity(numbers)  # Placed on a device, as in `sum_over_replicas`.
            return tf.distribute.get_replica_context().all_gather(here, axis=0)

        return self.strategy.run(gather, args=(own,))

    def _is_first(self, context: tf.distribute.experimental.ValueContext) -> bool:
        """Whether a replica is the first of its worker."""
        return context.replica_id_in_sync_group % self._local == 0

    def _sum(self, value: float) -> float:
        """Sum over workers."""
        mine = self.of_worker([value])
        return float(self.strategy.reduce(tf.distribute.ReduceOp.SUM, mine, axis=None)[0])


def own_part(batch: Batch) -> Batch:
    """In a replica: its part of a batch that `Replicas.split` has given."""
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync == 1:
        return batch
    number = replica.replica_id_in_sync_group
    # Of a worker's own batches the parts are those of its replicas, which follow each other.
    return tf.nest.map_structure(lambda each: each[number % tf.shape(each)[0]], batch)


def sum_over_replicas(values: list[Any]) -> list[Any]:
    """In a replica: sums of what each gives, on each replica."""
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync > 1:
        # What comes out of a function has no device, by which workers find each other's part.
        values = [tf.identity(each) for each in values]
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)


def _parts(count: int, *batch: Any) -> Any:
    """Rows of each of R replicas, [R, B', ...]."""

    def part(rows: tf.Tensor) -> tf.Tensor:
        size = tf.shape(rows)  # [B, ...]
        each = -(-size[0] // count)
        missing = each * count - size[0]
        pads = tf.zeros(tf.concat([[missing], size[1:]], 0), rows.dtype)
        # A batch is sorted by length: neighbours go to different replicas.
        shape = tf.concat([[each, count], size[1:]], 0)
        even = tf.reshape(tf.concat([rows, pads], 0), shape)  # [B', R, ...]
        order = [1, 0, *range(2, rows.shape.rank + 1)]
        even = tf.transpose(even, order)  # [R, B', ...]
        return tf.ensure_shape(even, [count, None, *rows.shape[1:]])

    return tf.nest.map_structure(part, batch)


def group(batches: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Batches in groups of `size`, the last of which may be smaller."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held
