"""Attention without a query: sequences become vectors, one level upon another."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.attention.contract import masked_softmax
from models.initializers import uniform


class Pooled(NamedTuple):
    """Sequences summed up."""

    vectors: tf.Tensor  # [..., M], compute dtype
    weights: tf.Tensor  # [..., S], float32: sum to one, or zero where no position is real


@keras.saving.register_keras_serializable("seqloom")
class AttentionPooling(keras.layers.Layer):
    """`u = tanh(W h + b)`, `α = softmax(uᵀ u_w)`, `s = Σ α h` (Yang et al. 2016, section 2.2).

    The query u_w is learned, not given: what to look for in any sequence. Any number of axes
    may come before the positions, so that over words [B, S, W, M] it gives sentence vectors
    [B, S, M], and a second one over these a document vector [B, M].

    Args:
        memory_size: Features of a position, M.
        units: Features of u; `memory_size` if None.
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self,
        memory_size: int,
        units: int | None = None,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.memory_size = memory_size
        self.units = units or memory_size
        self.initializer_range = initializer_range
        self.supports_masking = True

    def build(self, *_: Any) -> None:
        """Create W [M, A], b [A] and u_w [A]."""
        self.kernel = self.add_weight(
            shape=(self.memory_size, self.units),
            initializer=uniform(self.initializer_range),
            name="kernel",
        )
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")
        self.query = self.add_weight(
            shape=(self.units,), initializer=uniform(self.initializer_range), name="query"
        )

    def call(self, memory: tf.Tensor, mask: tf.Tensor) -> Pooled:
        """Pool.

        Args:
            memory: [..., S, M].
            mask: Bool [..., S], true at real positions.

        Returns:
            Vectors [..., M] and weights [..., S]; both zero where no position is real.
        """
        rows = tf.reshape(memory, [-1, self.memory_size])  # [N, M]
        kernel, bias = tf.cast(self.kernel, rows.dtype), tf.cast(self.bias, rows.dtype)
        hidden = tf.tanh(tf.matmul(rows, kernel) + bias)  # [N, A]
        query = tf.cast(self.query, rows.dtype)[:, tf.newaxis]  # [A, 1]
        scores = tf.reshape(tf.matmul(hidden, query), tf.shape(mask))  # [..., S]
        weights = masked_softmax(tf.cast(scores, tf.float32), mask)  # [..., S]
        shares = tf.cast(weights, memory.dtype)[..., tf.newaxis, :]  # [..., 1, S]
        vectors = tf.matmul(shares, memory)[..., 0, :]  # [..., M]
        return Pooled(vectors, weights)

    def compute_mask(self, *_: Any, **__: Any) -> None:
        """No mask travels on: the positions are gone."""

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "memory_size": self.memory_size,
            "units": self.units,
            "initializer_range": self.initializer_range,
        }
