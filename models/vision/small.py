"""A small network for small pictures of plain things, which learns with what reads it."""

from typing import Any

import keras
import tensorflow as tf

from models.errors import UserError
from models.vision.contract import Backbone

_FILTERS = (32, 64, 64)


@keras.saving.register_keras_serializable("seqloom")
class SmallNetwork(Backbone):
    """Three convolutions of 3×3, each with ReLU and the largest of 2×2: 64×64 pixels to 8×8 cells.

    It is quick enough to learn from nothing on a CPU.

    Args:
        weights: None, since there are no published ones.
        **kwargs: Of the layer.

    Raises:
        UserError: If weights are asked for.
    """

    picture_size = 64
    feature_size = _FILTERS[-1]

    def __init__(self, weights: str | None = None, **kwargs: Any):
        super().__init__(weights, **kwargs)
        if weights is not None:
            raise UserError(
                f"data.pictures.weights is {weights!r}, and the network 'small' has none to load: "
                f"set it to null, and data.pictures.fine_tune to true, so that it learns"
            )
        self.convolutions = [
            keras.layers.Conv2D(
                filters,
                3,
                padding="same",
                activation="relu",
                kernel_initializer=keras.initializers.HeNormal(),
                dtype=self.dtype_policy,
                name=f"convolution_{index}",
            )
            for index, filters in enumerate(_FILTERS)
        ]

    def build(self, *_: Any) -> None:
        """Create the variables."""
        channels = 3
        for convolution in self.convolutions:
            convolution.build((None, None, None, channels))
            channels = convolution.filters
        self.built = True

    def call(self, pixels: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Features [B, 8, 8, 64] of pixels [B, 64, 64, 3] in 0..255."""
        grid = tf.cast(pixels, self.compute_dtype) / 127.5 - 1.0  # [B, 64, 64, 3]
        for convolution in self.convolutions:
            grid = tf.nn.max_pool2d(convolution(grid), 2, 2, "VALID")  # [B, S / 2, S / 2, F]
        return grid
