"""Multi-head attention and self-attention (Vaswani et al. 2017)."""

from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import (
    Attended,
    Attention,
    AttentionMemory,
    masked_softmax,
    nothing_drawn,
)
from models.errors import UserError
from models.initializers import uniform


@keras.saving.register_keras_serializable("seqloom")
class MultiHeadAttention(Attention):
    """`c = [c_1; ..; c_N] W_o`, `c_i = softmax(q W_q (h W_k)ᵀ / √d) h W_v` (section 3.2.2).

    Each of N heads has d = A / N features of its own. The weights returned are the mean over
    the heads, which sums to one as each head's do.

    Args:
        query_size: Features of a query, D.
        memory_size: Features of a memory position, M; the context has as many.
        heads: N.
        units: A, over all heads; `query_size` if None.
        initializer_range: Kernels start in U(-range, range).
        **kwargs: Of the layer.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        heads: int = 8,
        units: int | None = None,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(query_size, memory_size, initializer_range, **kwargs)
        self.heads = heads
        self.units = units or query_size
        check_heads(heads, self.units, "model.attention.heads", "model.attention.units")

    def build(self, *_: Any) -> None:
        """Create W_q [D, A], W_k [M, A], W_v [M, A] and W_o [A, M]."""
        for name, rows, columns in (
            ("query_kernel", self.query_size, self.units),
            ("key_kernel", self.memory_size, self.units),
            ("value_kernel", self.memory_size, self.units),
            ("output_kernel", self.units, self.memory_size),
        ):
            initializer = uniform(self.initializer_range)
            weight = self.add_weight(shape=(rows, columns), initializer=initializer, name=name)
            setattr(self, name, weight)

    def prepare(self, memory: tf.Tensor, mask: tf.Tensor) -> AttentionMemory:
        """Keys and values of each head, [B, N, S, d], of a memory [B, S, M]."""
        keys = self._split(memory, self.key_kernel)  # [B, N, S, d]
        return AttentionMemory(keys, self._split(memory, self.value_kernel), mask)

    def attend(
        self,
        query: tf.Tensor,
        memory: AttentionMemory,
        place: tf.Tensor | None = None,
        training: bool = False,
    ) -> Attended:
        """Attend with all heads; the place of a query does not matter."""
        queries = self._split(query, self.query_kernel)  # [B, N, Q, d]
        queries *= (self.units // self.heads) ** -0.5
        scores = tf.cast(tf.matmul(queries, memory.keys, transpose_b=True), tf.float32)
        weights = masked_softmax(scores, memory.mask[:, tf.newaxis, tf.newaxis])  # [B, N, Q, S]
        found = tf.matmul(tf.cast(weights, query.dtype), memory.values)  # [B, N, Q, d]
        shape = tf.concat([tf.shape(query)[:2], [self.units]], 0)
        joined = tf.reshape(tf.transpose(found, [0, 2, 1, 3]), shape)  # [B, Q, A]
        context = tf.matmul(joined, tf.cast(self.output_kernel, query.dtype))  # [B, Q, M]
        return Attended(context, tf.reduce_mean(weights, 1), nothing_drawn(query))

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {**super().get_config(), "heads": self.heads, "units": self.units}

    def _split(self, inputs: tf.Tensor, kernel: Any) -> tf.Tensor:
        """Projections of inputs [B, L, F], a head apart: [B, N, L, d]."""
        projected = tf.matmul(inputs, tf.cast(kernel, inputs.dtype))  # [B, L, A]
        shape = tf.concat([tf.shape(inputs)[:2], [self.heads, self.units // self.heads]], 0)
        return tf.transpose(tf.reshape(projected, shape), [0, 2, 1, 3])


@keras.saving.register_keras_serializable("seqloom")
class SelfAttention(keras.layers.Layer):
    """Every position of a sequence attends to all: `norm(x + attend(x, x))` (section 3.1).

    Nothing tells it the order of positions; what stands below must, as a recurrent layer does.

    Args:
        size: Features of a position, M.
        heads: Heads N, which divide M.
        residual: Add the input.
        normalize: Normalise the outcome over its features (Ba et al. 2016).
        dropout: Share of what was attended to that is dropped in training.
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self,
        size: int,
        heads: int = 8,
        residual: bool = True,
        normalize: bool = True,
        dropout: float = 0.0,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        key = "model.encoder.self_attention.heads"
        check_heads(heads, size, key, "the encoder's outputs (model.encoder.units a direction)")
        self.size = size
        self.residual = residual
        self.dropout_rate = dropout
        self.attention = MultiHeadAttention(
            size,
            size,
            heads,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.normalization = (
            keras.layers.LayerNormalization(
                epsilon=1e-5, dtype=self.dtype_policy, name="normalization"
            )
            if normalize
            else None
        )
        self.supports_masking = True

    def build(self, *_: Any) -> None:
        """Build all parts."""
        self.attention.build()
        if self.normalization is not None:
            self.normalization.build((None, None, self.size))

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Attend.

        Args:
            inputs: [B, S, M].
            mask: Bool [B, S], true at real positions.
            training: Whether dropout is on.

        Returns:
            Outputs [B, S, M] in compute dtype, and weights [B, S, S] in float32.
        """
        attended = self.attention.attend(inputs, self.attention.prepare(inputs, mask))
        outputs = self.dropout(attended.context, training=training)  # [B, S, M]
        if self.residual:
            outputs += inputs
        if self.normalization is not None:
            outputs = self.normalization(outputs)
        return outputs, attended.weights

    def compute_mask(self, *_: Any, **__: Any) -> None:
        """No mask travels on: who reads the outputs is given one."""

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "size": self.size,
            "heads": self.attention.heads,
            "residual": self.residual,
            "normalize": self.normalization is not None,
            "dropout": self.dropout_rate,
            "initializer_range": self.attention.initializer_range,
        }


def self_attention_layers(layers: int, heads: int, size: int, **kwargs: Any) -> list[SelfAttention]:
    """Layers of self-attention upon each other, over positions of `size` features.

    Args:
        layers: How many; none at 0.
        heads: Of each.
        size: Features of a position.
        **kwargs: Of `SelfAttention`.
    """
    return [
        SelfAttention(size, heads, **kwargs, name=f"self_attention_{index}")
        for index in range(layers)
    ]


def check_heads(heads: int, width: int, key: str, of: str) -> None:
    """Refuse heads that do not divide a width evenly, by the name of their key."""
    if width % heads:
        raise UserError(
            f"{key} is {heads}, which does not divide the {width} features of {of}; take a "
            f"divisor of {width}"
        )
