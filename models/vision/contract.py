"""The contract of the networks that read pictures."""

import abc
import contextlib
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from models.errors import UserError


class Backbone(keras.layers.Layer, abc.ABC):
    """Contract of the family: pixels give a grid of features.

    `call` takes pixels float32 [B, H, W, 3] in 0..255, red first, H and W as `picture_size`
    tells, scales them as the network was trained on them, and gives features [B, h, w, F] in
    compute dtype. A backbone that is not trainable normalises by what it has seen before, also
    in training.

    Args:
        weights: `imagenet`, the path or URL of a Keras weights file, or None for first weights.
    """

    picture_size: int
    feature_size: int

    def __init__(self, weights: str | None = None, **kwargs: Any):
        # One name for all, by which checkpoints know its variables.
        super().__init__(**{"name": "backbone", **kwargs})
        self.weights_name = weights

    @abc.abstractmethod
    def build(self, *_: Any) -> None:
        """Create the variables and give them the weights.

        Raises:
            UserError: If the weights are not to be had or belong to another network.
        """

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer but for its weights, which it does not load again."""
        return {**super().get_config(), "weights": None}


def crop_square(pixels: tf.Tensor, size: int) -> tf.Tensor:
    """The middle of a picture, as large a square as it holds, scaled.

    Args:
        pixels: [H, W, 3], of at least one pixel; or many of one size, [N, H, W, 3].
        size: Side of the outcome.

    Returns:
        Float32 [size, size, 3], or [N, size, size, 3].
    """
    shape = tf.shape(pixels)
    side = tf.minimum(shape[-3], shape[-2])
    top, left = (shape[-3] - side) // 2, (shape[-2] - side) // 2
    square = pixels[..., top : top + side, left : left + side, :]  # [(N), S, S, 3]
    scaled = tf.image.resize(square, [size, size], antialias=True)
    return tf.ensure_shape(scaled, [*pixels.shape[:-3], size, size, 3])


@contextlib.contextmanager
def weights_file(path: str) -> Iterator[pathlib.Path]:
    """A weights file, or while the block runs a copy here of one at a URL, which Keras reads.

    Args:
        path: Its path, or its URL where TensorFlow knows such.

    Raises:
        UserError: If there is no such file.
    """
    try:
        there = tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)
    except tf.errors.OpError as error:
        raise UserError(f"{path}: no weights can be read from it ({error.message})") from None
    if not there:
        raise UserError(
            f"{path}: no such weights file; name one of Keras (.weights.h5), 'imagenet', or null"
        )
    if "://" not in path:
        yield pathlib.Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="seqloom-weights-") as folder:
        copy = pathlib.Path(folder, path.rpartition("/")[2])
        tf.io.gfile.copy(path, str(copy))
        yield copy
