"""What all models that learn words share: their loss and Keras's training methods."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.errors import UserError
from models.losses import FullSoftmax, TokenLosses, VocabularyLoss
from models.projection import VocabularyProjection
from models.scheduled_sampling import ScheduledSampling, fold_in
from models.self_paced import Paced, SelfPaced
from models.special_ids import PAD_ID


class LossSums(NamedTuple):
    """Sums over the words of a batch, so that sums of batches and replicas can be added."""

    loss: tf.Tensor  # [], float32: of the training loss, in nats
    tokens: tf.Tensor  # [], float32: words, end marks included
    correct: tf.Tensor  # [], float32: words that were the likeliest
    counted: tf.Tensor  # [], float32: words of which `correct` is a part; 0 if it is unknown
    examples: tf.Tensor  # [], float32: examples that were weighed; 0 if none are
    kept: tf.Tensor  # [], float32: the sum of their weights


class Moment(NamedTuple):
    """When in a run a step is made."""

    step: tf.Tensor  # [], int64, from 0
    epoch: tf.Tensor  # [], int64, from 0


class Reading(NamedTuple):
    """Outcome of a pass over known words."""

    features: tf.Tensor  # [B, T, H], from which the words are projected
    # Of the words' losses and of ones at real words, both float32 [B, T], a sum [] whose gradient
    # joins that of the losses. None adds nothing.
    extra_loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None


class SequenceModel(keras.Model, abc.ABC):
    """A Keras model whose outputs are words.

    The trainer calls `loss_sums`; `compile` and `fit` work too, and use the same
    method.

    Attributes:
        loss_function: The training loss; the full softmax unless replaced.
        drop_pads: Leave padded positions out before the projection. Right wherever shapes may
            depend on data; must be off where a step is compiled by XLA.
        scheduled_sampling: How right words are replaced by the model's own; None reads right
            words alone.
        self_paced: How much examples count while training; all alike if None.
    """

    projection: VocabularyProjection

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.loss_function: VocabularyLoss = FullSoftmax()
        self.drop_pads = True
        self.scheduled_sampling: ScheduledSampling | None = None
        self.self_paced: SelfPaced | None = None
        self._mean_loss = keras.metrics.Mean("loss")
        self._mean_accuracy = keras.metrics.Mean("accuracy")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """What `fit` and `evaluate` report: means over the words of all batches.

        The accuracy stays 0 under a loss that makes no predictions.
        """
        return [self._mean_loss, self._mean_accuracy]

    @property
    def carried(self) -> list[tf.Variable]:
        """What a training run carries from batch to batch beside weights; no export holds it."""
        return []

    @property
    def pretrained(self) -> list[keras.Variable]:
        """Variables that learn, but start from what was learned elsewhere."""
        return []

    @abc.abstractmethod
    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, T, H] from which the words at all positions are projected."""

    def read(self, inputs: dict[str, tf.Tensor], training: bool = False) -> Reading:
        """`features`, and what they add to the loss; replaced by models that add something."""
        return Reading(self.features(inputs, training=training))

    def with_own_words(
        self, inputs: dict[str, tf.Tensor], right_probability: tf.Tensor, seed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Inputs of which some right words are replaced by what the model predicts.

        Args:
            inputs: Of `features`.
            right_probability: How probable it is that a word stays, float32 [].
            seed: Int32 [2], of the draws.

        Returns:
            Inputs of the same shapes; no gradient flows through them.

        Raises:
            UserError: If the model reads no words that it predicts.
        """
        raise UserError(
            f"train.scheduled_sampling: a {type(self).__name__} reads no words that it predicts; "
            f"set decay to none"
        )

    def call(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Logits float32 [B, T, V]."""
        return self.projection(self.features(inputs, training=training))

    def loss_sums(
        self,
        inputs: dict[str, tf.Tensor],
        labels: tf.Tensor,
        seed: tf.Tensor,
        training: bool = True,
        moment: Moment | None = None,
    ) -> LossSums:
        """Loss of a batch.

        Args:
            inputs: Of `features`.
            labels: Int32 [B, T], padded with `PAD_ID`.
            seed: Int32 [2], of what the loss draws.
            training: Whether dropout is on and `loss_function` is used; the plain full softmax
                is used otherwise.
            moment: Of a training step, by which `scheduled_sampling` and `self_paced` go; both
                are off if None.

        Returns:
            The sums over the real words of the batch, each weighed as its example is.
        """
        if training and moment is not None and self.scheduled_sampling is not None:
            right_probability = self.scheduled_sampling.right_probability(moment.step)
            inputs = self.with_own_words(inputs, right_probability, fold_in(seed, 1))
        features, extra_loss = self.read(inputs, training=training)  # [B, T, H]
        loss_function = self.loss_function if training else FullSoftmax()
        weights = tf.reshape(tf.cast(tf.not_equal(labels, PAD_ID), tf.float32), [-1])  # [B * T]
        every = tf.reshape(weights, tf.shape(labels))  # [B, T]
        rows = tf.reshape(features, [-1, features.shape[-1]])  # [B * T, H]
        words = tf.reshape(labels, [-1])  # [B * T]
        if self.drop_pads:
            real = tf.where(weights > 0.0)[:, 0]  # [N]
            rows, words = tf.gather(rows, real), tf.gather(words, real)
            weights = tf.gather(weights, real)
        outcome = loss_function(rows, words, self.projection, seed)
        paced = None
        if training and moment is not None and self.self_paced is not None:
            row_of = tf.repeat(tf.range(tf.shape(labels)[0]), tf.shape(labels)[1])  # [B * T]
            if self.drop_pads:
                row_of = tf.gather(row_of, real)  # [N]
            paced = self.self_paced.of_words(
                outcome.losses, weights, row_of, tf.shape(labels)[0], moment.epoch
            )
            weights *= tf.gather(paced.weights, row_of)
            every *= paced.weights[:, tf.newaxis]
        sums = _sums(outcome, words, weights, paced)
        if training and extra_loss is not None:
            losses = outcome.losses  # [N]
            if self.drop_pads:
                size = tf.size(labels, tf.int64)[tf.newaxis]
                losses = tf.scatter_nd(real[:, tf.newaxis], losses, size)  # [B * T]
            extra = extra_loss(tf.reshape(losses, tf.shape(labels)), every)
            # The gradient of both is followed; the value that is told is that of the words.
            sums = sums._replace(loss=sums.loss + (extra - tf.stop_gradient(extra)))
        return sums

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """One step of `fit`; batches are (inputs, labels)."""
        inputs, labels = data
        seed = tf.stack([tf.cast(self.optimizer.iterations, tf.int32), 0])
        with tf.GradientTape() as tape:
            sums = self.loss_sums(inputs, labels, seed)
            loss = sums.loss / tf.maximum(sums.tokens, 1.0)
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, [v.value for v in self.trainable_variables])
        self.optimizer.apply(gradients, self.trainable_variables)
        return self._report(sums)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """One step of `evaluate`; batches are (inputs, labels)."""
        inputs, labels = data
        return self._report(self.loss_sums(inputs, labels, tf.zeros([2], tf.int32), training=False))

    def _report(self, sums: LossSums) -> dict[str, tf.Tensor]:
        """Means so far with a batch's sums counted in."""
        self._mean_loss.update_state(sums.loss / tf.maximum(sums.tokens, 1.0), sums.tokens)
        self._mean_accuracy.update_state(sums.correct / tf.maximum(sums.counted, 1.0), sums.counted)
        return {metric.name: metric.result() for metric in self.metrics}


def _sums(
    outcome: TokenLosses, words: tf.Tensor, weights: tf.Tensor, paced: Paced | None
) -> LossSums:
    tokens = tf.reduce_sum(weights)
    loss = tf.reduce_sum(outcome.losses * weights)
    zero = tf.zeros([], tf.float32)
    examples, kept = (zero, zero) if paced is None else (paced.examples, paced.kept)
    if outcome.predictions is None:
        return LossSums(loss, tokens, zero, zero, examples, kept)
    hits = tf.cast(tf.equal(outcome.predictions, words), tf.float32) * weights  # [N]
    return LossSums(loss, tokens, tf.reduce_sum(hits), tokens, examples, kept)
