"""Small networks for small pictures of plain things, which learn with what reads them."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from models.errors import UserError
from models.vision.contract import Backbone


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
    feature_size = 64
    filters: ClassVar[tuple[int, ...]] = (32, 64, 64)

    def __init__(self, weights: str | None = None, **kwargs: Any):
        super().__init__(weights, **kwargs)
        if weights is not None:
            raise UserError(
                f"data.pictures.weights is {weights!r}, and the networks 'small' and 'tiny' have "
                f"none to load: set it to null, and data.pictures.fine_tune to true, so that it "
                f"learns"
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
            for index, filters in enumerate(self.filters)
        ]

    def build(self, *_: Any) -> None:
        """Create the variables."""
        channels = 3
        for convolution in self.convolutions:
            convolution.build((None, None, None, channels))
            channels = convolution.filters
        self.built = True

    def call(self, pixels: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Features [B, S / 8, S / 8, F] of pixels [B, S, S, 3] in 0..255."""
        grid = tf.cast(pixels, self.compute_dtype) / 127.5 - 1.0  # [B, S, S, 3]
        for convolution in self.convolutions:
            grid = tf.nn.max_pool2d(convolution(grid), 2, 2, "VALID")  # [B, S / 2, S / 2, F]
        return grid


@keras.saving.register_keras_serializable("seqloom")
class TinyNetwork(SmallNetwork):
    """The same on 32×32 pixels and with fewer filters, for clips: a step sees hundreds of frames.

    A frame costs it a fourteenth of the products that a picture costs the other.
    """

    picture_size = 32
    feature_size = 32
    filters: ClassVar[tuple[int, ...]] = (16, 32, 32)
