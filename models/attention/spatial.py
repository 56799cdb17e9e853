"""Spatial attention: any attention over the cells of a grid."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.attention.contract import AttentionMemory, Draw
from models.attention.kinds import make_attention
from models.initializers import uniform


class SpatialMemory(NamedTuple):
    """A grid made ready to be attended to, once for all queries."""

    cells: AttentionMemory  # of R * C positions, row after row
    mask: tf.Tensor  # [B, R, C], bool: true at real cells


class SpatiallyAttended(NamedTuple):
    """Outcome of Q queries."""

    context: tf.Tensor  # [B, Q, M], compute dtype
    weights: tf.Tensor  # [B, Q, R, C], float32
    draw: Draw


@keras.saving.register_keras_serializable("seqloom")
class SpatialAttention(keras.layers.Layer):
    """Attention whose positions are the cells of a grid of features (Xu et al. 2015).

    The contract is that of `Attention` with rows and columns in the place of positions. A window
    of the local kinds runs over the cells as they are read, row after row.

    Args:
        query_size: Features of a query, D.
        memory_size: Features of a cell, M.
        attention: Options of `models.attention.kinds.make_attention`.
        gate: Scale each context by `β = σ(w s + b)`, so that a query may look away from the
            grid (section 4.2.1).
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        attention: dict[str, Any] | None = None,
        gate: bool = False,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.query_size = query_size
        self.memory_size = memory_size
        self.attention_options = dict(attention or {"score": "additive", "units": None})
        self.initializer_range = initializer_range
        self.attention = make_attention(
            **self.attention_options,
            query_size=query_size,
            memory_size=memory_size,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.gate = (
            keras.layers.Dense(
                1,
                activation="sigmoid",
                kernel_initializer=uniform(initializer_range),
                dtype=self.dtype_policy,
                name="gate",
            )
            if gate
            else None
        )

    def build(self, *_: Any) -> None:
        """Build all parts."""
        self.attention.build()
        if self.gate is not None:
            self.gate.build((None, None, self.query_size))

    def prepare(self, grid: tf.Tensor, mask: tf.Tensor | None = None) -> SpatialMemory:
        """Compute what does not depend on the query.

        Args:
            grid: [B, R, C, M].
            mask: Bool [B, R, C], true at real cells; None if all are.
        """
        if mask is None:
            mask = tf.fill(tf.shape(grid)[:3], True)  # [B, R, C]
        rows, cells = tf.shape(grid)[0], tf.shape(grid)[1] * tf.shape(grid)[2]
        memory = tf.reshape(grid, [rows, cells, self.memory_size])  # [B, R * C, M]
        flat = tf.reshape(mask, [rows, cells])  # [B, R * C]
        return SpatialMemory(self.attention.prepare(memory, flat), mask)

    def attend(
        self,
        query: tf.Tensor,
        memory: SpatialMemory,
        place: tf.Tensor | None = None,
        training: bool = False,
    ) -> SpatiallyAttended:
        """Attend with queries [B, Q, D]; the rest is as in `Attention.attend`."""
        attended = self.attention.attend(query, memory.cells, place, training)
        context = attended.context  # [B, Q, M]
        if self.gate is not None:
            context *= self.gate(query)  # [B, Q, 1]
        shape = tf.concat([tf.shape(query)[:2], tf.shape(memory.mask)[1:]], 0)
        return SpatiallyAttended(context, tf.reshape(attended.weights, shape), attended.draw)

    def call(
        self,
        query: tf.Tensor,
        grid: tf.Tensor,
        mask: tf.Tensor | None = None,
        place: tf.Tensor | None = None,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """`prepare` and `attend` in one.

        Returns:
            Context [B, Q, M] in compute dtype and weights [B, Q, R, C] in float32.
        """
        attended = self.attend(query, self.prepare(grid, mask), place, training)
        return attended.context, attended.weights

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "query_size": self.query_size,
            "memory_size": self.memory_size,
            "attention": self.attention_options,
            "gate": self.gate is not None,
            "initializer_range": self.initializer_range,
        }
