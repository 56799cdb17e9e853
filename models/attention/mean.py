"""The mean of all positions, for decoders that are compared with those that attend."""

from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import Attended, Attention, AttentionMemory, nothing_drawn


@keras.saving.register_keras_serializable("seqloom")
class MeanAttention(Attention):
    """All real positions alike, whatever the query; it has no weights."""

    def build(self, *_: Any) -> None:
        """There is nothing to create."""

    def prepare(self, memory: tf.Tensor, mask: tf.Tensor) -> AttentionMemory:
        """The memory [B, S, M]; nothing is compared with its keys."""
        return AttentionMemory(memory, memory, mask)

    def attend(
        self,
        query: tf.Tensor,
        memory: AttentionMemory,
        place: tf.Tensor | None = None,
        training: bool = False,
    ) -> Attended:
        """The same context [B, Q, M] for all queries [B, Q, D]."""
        weights = mean_weights(memory.mask)[:, tf.newaxis]  # [B, 1, S]
        weights = tf.repeat(weights, tf.shape(query)[1], 1)  # [B, Q, S]
        context = tf.matmul(tf.cast(weights, memory.values.dtype), memory.values)  # [B, Q, M]
        return Attended(context, weights, nothing_drawn(query))


def mean_weights(mask: tf.Tensor) -> tf.Tensor:
    """Weights float32 [B, S] of the mean over the real positions of a mask, bool [B, S]."""
    real = tf.cast(mask, tf.float32)  # [B, S]
    return tf.math.divide_no_nan(real, tf.reduce_sum(real, 1, keepdims=True))
