"""Replicas of a run: where they are, what each reads, and what they agree on.

Every worker reads the whole batches, in the order that seed and epoch decide, and its replicas
learn from their own rows of each. So all have the same number of batches whatever the shards are
like, and a step is that of one process on the whole batch.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from models.errors import UserError

_WORKER_TYPES = ("chief", "worker")
_SEED_STATE = "seed_generator_state"  # how Keras calls the state of a generator
_SEEDS_APART = 1_000_003


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
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


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

    def split(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Batches as the steps take them: as they are for one replica, else parted by replica.

        Args:
            batches: Of (inputs, labels), each [B, ...], the same on all workers.

        Returns:
            Of (inputs, labels), each [R, B', ...] where there are R > 1 replicas. Rows of pads,
            which are as if not there, make the parts of one size.
        """
        return batches if self.count == 1 else batches.map(self._parts)

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
            is_first = context.replica_id_in_sync_group % self._local == 0
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

    def _sum(self, value: float) -> float:
        """Sum over workers."""
        mine = self.of_worker([value])
        return float(self.strategy.reduce(tf.distribute.ReduceOp.SUM, mine, axis=None)[0])

    def _parts(self, *batch: Any) -> Any:
        """Rows of each replica, [R, B', ...]."""

        def part(rows: tf.Tensor) -> tf.Tensor:
            size = tf.shape(rows)  # [B, ...]
            each = -(-size[0] // self.count)
            missing = each * self.count - size[0]
            pads = tf.zeros(tf.concat([[missing], size[1:]], 0), rows.dtype)
            # A batch is sorted by length: neighbours go to different replicas.
            shape = tf.concat([[each, self.count], size[1:]], 0)
            even = tf.reshape(tf.concat([rows, pads], 0), shape)  # [B', R, ...]
            order = [1, 0, *range(2, rows.shape.rank + 1)]
            even = tf.transpose(even, order)  # [R, B', ...]
            return tf.ensure_shape(even, [self.count, None, *rows.shape[1:]])

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
