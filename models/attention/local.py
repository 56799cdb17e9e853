"""Local attention: a window of the memory around one position (Luong et al. 2015, section 3.2)."""

from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import Draw, masked_softmax, nothing_drawn
from models.attention.soft import ScoredAttention
from models.initializers import uniform


class LocalAttention(ScoredAttention):
    """Softmax over the real positions of `[p - D, p + D]` only.

    Every position is compared and the window cut out after: one product for all queries, where
    windows of their own would be gathered one by one.

    Args:
        *args: Of `ScoredAttention`.
        window: D, positions on each side of p.
        **kwargs: Of `ScoredAttention`.
    """

    def __init__(self, *args: Any, window: int = 10, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.window = window

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {**super().get_config(), "window": self.window}

    def within(self, scores: tf.Tensor, mask: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Softmax [B, Q, S] over real positions at a distance [B, Q, S] of D at most."""
        near = tf.abs(distance) <= float(self.window)  # [B, Q, S]
        return masked_softmax(scores, near & mask[:, tf.newaxis, :])


@keras.saving.register_keras_serializable("seqloom")
class LocalMonotonicAttention(LocalAttention):
    """The paper's local-m: `p = t`, as if source and target ran side by side.

    A target may be longer than its source; p stays at the last real position then, where the
    paper would have an empty window.
    """

    def weigh(
        self,
        scores: tf.Tensor,
        query: tf.Tensor,
        mask: tf.Tensor,
        place: tf.Tensor,
        training: bool,
    ) -> tuple[tf.Tensor, Draw]:
        """The softmax in the window around the query's place, [B, Q, S]."""
        last = tf.maximum(source_lengths(mask) - 1.0, 0.0)  # [B]
        center = tf.minimum(tf.cast(place, tf.float32), last[:, tf.newaxis])  # [B, Q]
        return self.within(scores, mask, distances(mask, center)), nothing_drawn(query)


@keras.saving.register_keras_serializable("seqloom")
class LocalPredictiveAttention(LocalAttention):
    """The paper's local-p: `p = S σ(vᵀ tanh(W s))`, and a Gaussian around it.

    `α = softmax(score) exp(-(j - p)² / 2(D / 2)²)`, the softmax over the window. As in the paper,
    the product is not normalised again, so the weights of a query sum to one at most.
    """

    def build(self, *_: Any) -> None:
        """Create W [D, D] and v [D], and build the score."""
        super().build()
        uniformly = uniform(self.initializer_range)
        self.position_kernel = self.add_weight(
            shape=(self.query_size, self.query_size),
            initializer=uniformly,
            name="position_kernel",
        )
        self.position_vector = self.add_weight(
            shape=(self.query_size,), initializer=uniformly, name="position_vector"
        )

    def weigh(
        self,
        scores: tf.Tensor,
        query: tf.Tensor,
        mask: tf.Tensor,
        place: tf.Tensor,
        training: bool,
    ) -> tuple[tf.Tensor, Draw]:
        """The softmax in the window around the predicted position, times the Gaussian."""
        distance = distances(mask, self.predict(query, mask))  # [B, Q, S]
        gaussian = tf.exp(-2.0 * tf.square(distance / float(self.window)))  # [B, Q, S]
        return self.within(scores, mask, distance) * gaussian, nothing_drawn(query)

    def predict(self, query: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Positions p in [0, S], float32 [B, Q], of queries [B, Q, D]."""
        hidden = tf.tanh(tf.matmul(query, tf.cast(self.position_kernel, query.dtype)))  # [B, Q, D]
        # In single precision: half of it cannot tell the positions of a long source apart.
        vector = tf.cast(self.position_vector, tf.float32)  # [D]
        share = tf.sigmoid(tf.reduce_sum(tf.cast(hidden, tf.float32) * vector, -1))  # [B, Q]
        return source_lengths(mask)[:, tf.newaxis] * share


def source_lengths(mask: tf.Tensor) -> tf.Tensor:
    """One past the last real position, float32 [B], of a mask [B, S]."""
    ends = tf.cast(mask, tf.float32) * (tf.range(tf.shape(mask)[1], dtype=tf.float32) + 1.0)
    return tf.reduce_max(tf.pad(ends, [[0, 0], [0, 1]]), 1)  # [B]


def distances(mask: tf.Tensor, center: tf.Tensor) -> tf.Tensor:
    """`j - p`, float32 [B, Q, S], of the positions j of a mask [B, S] and centers [B, Q]."""
    positions = tf.range(tf.shape(mask)[1], dtype=tf.float32)  # [S]
    return positions - center[:, :, tf.newaxis]
