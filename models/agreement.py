"""Agreement: whether anything that is seen goes with what was said."""

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("seqloom")
class Agreement(keras.layers.Layer):
    """The best agreement of any cell with any word, feature by feature.

    `a = max_r tanh(U max_q w_q + b) ⊙ tanh(V v_r + d)` of words w and cells v: low-rank bilinear
    pooling (Kim et al. 2017, section 3), where both sides are sets of which the highest counts.
    Whether two things are of one kind, which no sum of the two tells, is learned from it soon, and
    needs no attention that has learned where to look.

    Args:
        size: Features M of all.
    """

    def __init__(self, size: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.size = size
        self.supports_masking = True  # The mask is given by name.
        own: dict[str, Any] = {"activation": "tanh", "dtype": self.dtype_policy}
        self.said = keras.layers.Dense(size, **own, name="said")
        self.seen = keras.layers.Dense(size, **own, name="seen")

    def build(self, *_: Any) -> None:
        """Create the variables."""
        self.said.build((None, self.size))
        self.seen.build((None, None, self.size))
        self.built = True

    def call(self, words: tf.Tensor, mask: tf.Tensor, cells: tf.Tensor) -> tf.Tensor:
        """Compare.

        Args:
            words: [B, Q, M], compute dtype; at least one of a row.
            mask: Bool [B, Q], false at pads.
            cells: [B, P, M].

        Returns:
            [B, 1, M], compute dtype.
        """
        present = tf.where(mask[:, :, tf.newaxis], words, words.dtype.min)  # [B, Q, M]
        said = self.said(tf.reduce_max(present, 1, keepdims=True))  # [B, 1, M]
        return tf.reduce_max(said * self.seen(cells), 1, keepdims=True)  # [B, 1, M]

    def compute_mask(self, *_: Any) -> None:
        """What comes out has no pads."""

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {**super().get_config(), "size": self.size}
