"""One training step, written as a replica's share of it, summed over replicas."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.sequence_model import LossSums, Moment, SequenceModel
from pipeline.experiment import ClipOptions
from pipeline.train.clipping import clip_gradients
from pipeline.train.lazy_adam import LazyAdam
from pipeline.train.replicas import Batch, own_part, sum_over_replicas
from pipeline.train.row_gradients import Gradient, add, merge_rows, scale


class StepSums(NamedTuple):
    """What a step reports, summed over replicas."""

    sums: LossSums
    source_tokens: tf.Tensor  # [], float32: source words, end marks included
    gradient_norm: tf.Tensor  # [], float32, before clipping
    asked: tf.Tensor  # [A], float32: what workers ask for, summed


class Held(NamedTuple):
    """What a replica's batches have come to since the last update."""

    gradients: list[Gradient]  # of the summed loss, times the loss scale
    sums: LossSums
    source_tokens: tf.Tensor  # [], float32


class Steps:
    """The compiled steps of a run.

    Gradients of the mean loss are weighted by each replica's words and summed over replicas,
    then clipped, then applied: the outcome is that of one process on the whole batch.

    Where the optimizer can use them, and there is one replica to sum over, gradients of tables
    stay the rows that the batch looked up.

    Args:
        model: The model, built.
        optimizer: Its optimizer, built; a `LossScaleOptimizer` under float16.
        clip: Clipping.
        seed: Of the experiment.
        strategy: Distributes the step.
        jit_compile: Compile forward and backward pass by XLA.
    """

    def __init__(
        self,
        model: SequenceModel,
        optimizer: keras.optimizers.Optimizer,
        clip: ClipOptions,
        seed: int,
        strategy: tf.distribute.Strategy,
        jit_compile: bool = False,
    ):
        self._model = model
        self._optimizer = _without_sums(optimizer)
        self._clip = clip
        self._seed = seed
        self._strategy = strategy
        self._keeps_rows = strategy.num_replicas_in_sync == 1 and _takes_rows(optimizer)
        self._gradients = tf.function(
            self._replica_gradients, jit_compile=jit_compile, reduce_retracing=not jit_compile
        )
        self._train = tf.function(self._distributed_train, reduce_retracing=True)
        self._hold = tf.function(self._distributed_hold, reduce_retracing=True)
        self._spec: Any = None
        self._traced: set[tuple] = set()

    def expect(self, spec: Any) -> None:
        """Trace what is to come once for all sizes, in place of for those of the first batches.

        Args:
            spec: Of batches, None for sizes that differ.
        """
        self._spec = spec

    def train(
        self,
        batch: Batch,
        step: tf.Tensor,
        epoch: tf.Tensor | None = None,
        held: Any = None,
        part: tf.Tensor | None = None,
        asks: Any = None,
    ) -> StepSums:
        """Learn from one batch, and from those held before it, as from one batch of them all.

        Args:
            batch: (inputs, labels), each [B, ...], or [R, B, ...] where there are R > 1 replicas.
            step: Int64 [], of this step; it seeds what the step draws.
            epoch: Int64 [], of this step; the first if None.
            held: What `hold` gave for the batches before; None if this is the first.
            part: Int64 [], how many batches these are; none if None.
            asks: Float32 [A] of a replica, whose sum the step reports; nothing if None.
        """
        moment = Moment(step, tf.zeros([], tf.int64) if epoch is None else epoch)
        return self._call(self._train, batch, moment, held, part, asks)

    def hold(
        self, batch: Batch, step: tf.Tensor, epoch: tf.Tensor, held: Any, part: tf.Tensor
    ) -> Held:
        """Take in a batch without an update; else as `train`."""
        return self._call(self._hold, batch, Moment(step, epoch), held, part)

    def _call(self, function: Any, batch: Batch, moment: Moment, held: Any, *given: Any) -> Any:
        kind = (function is self._train, held is None)
        if self._spec is not None and kind not in self._traced:
            function.get_concrete_function(self._spec, moment, held, *given)
            self._traced.add(kind)
        return function(batch, moment, held, *given)

    def _distributed_train(self, *given: Any) -> StepSums:
        return self._strategy.run(self._replica_train, args=given)

    def _distributed_hold(self, *given: Any) -> Held:
        return self._strategy.run(self._replica_hold, args=given)

    def _replica_train(
        self,
        batch: Batch,
        moment: Moment,
        held: Held | None,
        part: tf.Tensor | None,
        asks: tf.Tensor | None,
    ) -> StepSums:
        gradients, sums, source_tokens = self._replica_hold(batch, moment, held, part)
        asked = tf.zeros([0]) if asks is None else asks
        summed = sum_over_replicas([*gradients, *sums, source_tokens, asked])
        gradients = summed[: len(gradients)]
        *counts, source_tokens, asked = summed[len(gradients) :]
        sums = LossSums(*counts)
        loss_scale = self._loss_scale()
        share = 1.0 / (tf.maximum(sums.tokens, 1.0) * loss_scale)
        means = [scale(merge_rows(each), share) for each in gradients]
        clipped, norm = clip_gradients(means, self._clip)
        applied = [scale(each, loss_scale) for each in clipped]
        self._optimizer.apply(applied, self._model.trainable_variables)
        return StepSums(sums, source_tokens, norm, asked)

    def _replica_hold(
        self, batch: Batch, moment: Moment, held: Held | None, part: tf.Tensor | None
    ) -> Held:
        """What this batch and those held before come to."""
        own = Held(*self._gradients(batch, moment, part))
        if held is None:
            return own
        return Held(
            [add(*both) for both in zip(held.gradients, own.gradients, strict=True)],
            LossSums(*(a + b for a, b in zip(held.sums, own.sums, strict=True))),
            held.source_tokens + own.source_tokens,
        )

    def _replica_gradients(
        self, batch: Batch, moment: Moment, part: tf.Tensor | None
    ) -> tuple[list[Gradient], LossSums, tf.Tensor]:
        """Gradients of the summed loss, times the loss scale; the sums; the source words."""
        inputs, labels = own_part(batch)
        variables = [variable.value for variable in self._model.trainable_variables]
        with tf.GradientTape() as tape:
            sums = self._model.loss_sums(
                inputs, labels, self._draw_seed(moment.step, part), moment=moment
            )
            tokens = tf.maximum(sums.tokens, 1.0)
            # The mean keeps float16 gradients in range; the sum is restored in float32.
            loss = sums.loss / tokens * self._loss_scale()
        gradients = tape.gradient(loss, variables)
        if not self._keeps_rows:
            gradients = [tf.convert_to_tensor(each) for each in gradients]
        gradients = [scale(each, tokens) for each in gradients]
        source = inputs.get("source", tf.zeros([0, 0], tf.int32))  # [B, S]
        source_tokens = tf.math.count_nonzero(source, dtype=tf.float32)
        return gradients, sums, source_tokens

    def _loss_scale(self) -> tf.Tensor:
        if isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
            return tf.convert_to_tensor(self._optimizer.dynamic_scale)
        return tf.ones([])

    def _draw_seed(self, step: tf.Tensor, part: tf.Tensor | None) -> tf.Tensor:
        """Seed of a step's batch and replica, int32 [2]."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        mixed = tf.cast(step, tf.int32) * 4099 + tf.cast(replica, tf.int32)
        if part is not None:
            mixed += tf.cast(part, tf.int32) * self._strategy.num_replicas_in_sync
        return tf.stack([tf.constant(self._seed, tf.int32), mixed])


def _without_sums(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """An optimizer that is given sums over replicas, and spares to sum them once more.

    Keras offers no such setting. A version of it that sums elsewhere would learn from gradients
    that are too large by the number of replicas, which the tests of replicas compare.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    inner._all_reduce_sum_gradients = list
    return optimizer


def _takes_rows(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether gradients that are rows of a table cost the optimizer those rows alone."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return _takes_rows(optimizer.inner_optimizer)
    plain = isinstance(optimizer, keras.optimizers.SGD) and not optimizer.momentum
    return plain or isinstance(optimizer, LazyAdam)
