"""What all models that learn words share: their loss and Keras's training methods."""

import abc
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.losses import FullSoftmax, TokenLosses, VocabularyLoss
from models.projection import VocabularyProjection
from models.special_ids import PAD_ID


class LossSums(NamedTuple):
    """Sums over the words of a batch, so that sums of batches and replicas can be added."""

    loss: tf.Tensor  # [], float32: of the training loss, in nats
    tokens: tf.Tensor  # [], float32: words, end marks included
    correct: tf.Tensor  # [], float32: words that were the likeliest
    counted: tf.Tensor  # [], float32: words of which `correct` is a part; 0 if it is unknown


class SequenceModel(keras.Model, abc.ABC):
    """A Keras model whose outputs are words.

    The trainer calls `loss_sums`; `compile` and `fit` work too, and use the same
    method.

    Attributes:
        loss_function: The training loss; the full softmax unless replaced.
        drop_pads: Leave padded positions out before the projection. Right wherever shapes may
            depend on data; must be off where a step is compiled by XLA.
    """

    projection: VocabularyProjection

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.loss_function: VocabularyLoss = FullSoftmax()
        self.drop_pads = True
        self._mean_loss = keras.metrics.Mean("loss")
        self._mean_accuracy = keras.metrics.Mean("accuracy")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """What `fit` and `evaluate` report: means over the words of all batches.

        The accuracy stays 0 under a loss that makes no predictions.
        """
        return [self._mean_loss, self._mean_accuracy]

    @abc.abstractmethod
    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, T, H] from which the words at all positions are projected."""

    def call(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Logits float32 [B, T, V]."""
        return self.projection(self.features(inputs, training=training))

    def loss_sums(
        self,
        inputs: dict[str, tf.Tensor],
        labels: tf.Tensor,
        seed: tf.Tensor,
        training: bool = True,
    ) -> LossSums:
        """Loss of a batch.

        Args:
            inputs: Of `features`.
            labels: Int32 [B, T], padded with `PAD_ID`.
            seed: Int32 [2], of what the loss draws.
            training: Whether dropout is on and `loss_function` is used; the plain full softmax
                is used otherwise.

        Returns:
            The sums over the real words of the batch.
        """
        features = self.features(inputs, training=training)  # [B, T, H]
        loss_function = self.loss_function if training else FullSoftmax()
        weights = tf.reshape(tf.cast(tf.not_equal(labels, PAD_ID), tf.float32), [-1])  # [B * T]
        rows = tf.reshape(features, [-1, features.shape[-1]])  # [B * T, H]
        words = tf.reshape(labels, [-1])  # [B * T]
        if self.drop_pads:
            real = tf.where(weights > 0.0)[:, 0]  # [N]
            rows, words = tf.gather(rows, real), tf.gather(words, real)
            weights = tf.gather(weights, real)
        outcome = loss_function(rows, words, self.projection, seed)
        return _sums(outcome, words, weights)

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


def _sums(outcome: TokenLosses, words: tf.Tensor, weights: tf.Tensor) -> LossSums:
    tokens = tf.reduce_sum(weights)
    loss = tf.reduce_sum(outcome.losses * weights)
    if outcome.predictions is None:
        zero = tf.zeros([], tf.float32)
        return LossSums(loss, tokens, zero, zero)
    hits = tf.cast(tf.equal(outcome.predictions, words), tf.float32) * weights  # [N]
    return LossSums(loss, tokens, tf.reduce_sum(hits), tokens)
