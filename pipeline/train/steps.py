"""One training step and one validation step.

They are written as a replica's share of a step, summed over replicas; the trainer runs one
replica.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from models.sequence_model import LossSums, SequenceModel
from pipeline.experiment import ClipOptions
from pipeline.train.clipping import clip_gradients

Batch = tuple[dict[str, tf.Tensor], tf.Tensor]


class StepSums(NamedTuple):
    """What a step reports, summed over replicas."""

    sums: LossSums
    source_tokens: tf.Tensor  # [], float32: source words, end marks included
    gradient_norm: tf.Tensor  # [], float32, before clipping


class Steps:
    """The compiled steps of a run.

    Gradients of the mean loss are weighted by each replica's words and summed over replicas,
    then clipped, then applied: the outcome is that of one process on the whole batch.

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
        self._optimizer = optimizer
        self._clip = clip
        self._seed = seed
        self._strategy = strategy
        self._gradients = tf.function(
            self._replica_gradients, jit_compile=jit_compile, reduce_retracing=not jit_compile
        )

    @tf.function(reduce_retracing=True)
    def train(self, batch: Batch, step: tf.Tensor) -> StepSums:
        """Learn from one batch.

        Args:
            batch: (inputs, labels), distributed where the strategy has many replicas.
            step: Int64 [], of this step; it seeds what the step draws.
        """
        return self._strategy.run(self._replica_train, args=(batch, step))

    @tf.function(reduce_retracing=True)
    def validate(self, batch: Batch) -> LossSums:
        """Full softmax loss of one batch, without dropout."""
        return self._strategy.run(self._replica_validate, args=(batch,))

    def _replica_train(self, batch: Batch, step: tf.Tensor) -> StepSums:
        gradients, sums, source_tokens = self._gradients(batch, step)
        replica = tf.distribute.get_replica_context()
        summed = replica.all_reduce(tf.distribute.ReduceOp.SUM, [*gradients, *sums, source_tokens])
        gradients = summed[: len(gradients)]
        *sums, source_tokens = summed[len(gradients) :]
        sums = LossSums(*sums)
        scale = self._loss_scale()
        share = 1.0 / (tf.maximum(sums.tokens, 1.0) * scale)
        clipped, norm = clip_gradients([each * share for each in gradients], self._clip)
        self._optimizer.apply([each * scale for each in clipped], self._model.trainable_variables)
        return StepSums(sums, source_tokens, norm)

    def _replica_gradients(
        self, batch: Batch, step: tf.Tensor
    ) -> tuple[list[tf.Tensor], LossSums, tf.Tensor]:
        """Gradients of the summed loss, times the loss scale; the sums; the source words."""
        inputs, labels = batch
        variables = [variable.value for variable in self._model.trainable_variables]
        with tf.GradientTape() as tape:
            sums = self._model.loss_sums(inputs, labels, self._draw_seed(step))
            tokens = tf.maximum(sums.tokens, 1.0)
            # The mean keeps float16 gradients in range; the sum is restored in float32.
            loss = sums.loss / tokens * self._loss_scale()
        gradients = tape.gradient(loss, variables)
        gradients = [tf.convert_to_tensor(each) * tokens for each in gradients]
        source_tokens = tf.math.count_nonzero(inputs["source"], dtype=tf.float32)
        return gradients, sums, source_tokens

    def _replica_validate(self, batch: Batch) -> LossSums:
        inputs, labels = batch
        seed = tf.zeros([2], tf.int32)
        sums = self._model.loss_sums(inputs, labels, seed, training=False)
        replica = tf.distribute.get_replica_context()
        return LossSums(*replica.all_reduce(tf.distribute.ReduceOp.SUM, list(sums)))

    def _loss_scale(self) -> tf.Tensor:
        if isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
            return tf.convert_to_tensor(self._optimizer.dynamic_scale)
        return tf.ones([])

    def _draw_seed(self, step: tf.Tensor) -> tf.Tensor:
        """Seed of a step and replica, int32 [2]."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        mixed = tf.cast(step, tf.int32) * 4099 + tf.cast(replica, tf.int32)
        return tf.stack([tf.constant(self._seed, tf.int32), mixed])
