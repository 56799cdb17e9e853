"""Files of the frames of clips to what models read of clips, inside a graph."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.vision.decoding import decode_pictures
from models.vision.problems import EMPTY, NO_PROBLEM
from serving.services.contract import Outputs
from serving.services.placing import placed_all

_WARM_FRAMES = 8


class Clips(NamedTuple):
    """The N of B clips whose frames could all be read, or one of a black frame and row -1."""

    rows: tf.Tensor  # [N, 1], int32
    inputs: dict[str, tf.Tensor]  # of the model, [N, ...]
    problems: tf.Tensor  # [B], int32

    def placed(self, outputs: Outputs) -> Outputs:
        """Outputs [N, ...] at the rows of their clips, zeros or "" elsewhere, and the problems."""
        return placed_all(outputs, self.rows, self.problems)


def decode_clips(files: tf.Tensor, size: int, max_pixels: int, max_frames: int) -> Clips:
    """Decode the frames of clips; a clip with one that cannot be read is left out.

    Args:
        files: String [B, F], padded with "".
        size: Side S of a frame as the model sees it.
        max_pixels: Of a frame; a larger one is an error.
        max_frames: Of a clip; later ones are not looked at.
    """
    files = files[:, :max_frames]
    missing = tf.cast(tf.equal(tf.shape(files)[1], 0), tf.int32)
    files = tf.pad(files, [[0, 0], [0, missing]])  # [B, T]
    count, longest = tf.shape(files)[0], tf.shape(files)[1]
    numbers = tf.range(longest)  # [T]
    given = tf.strings.length(files) > 0  # [B, T]
    frames = tf.reduce_max(tf.where(given, numbers + 1, 0), 1)  # [B]
    decoded = decode_pictures(tf.reshape(files, [-1]), size, max_pixels)
    problems = tf.reshape(decoded.problems, [count, longest])  # [B, T]
    own = numbers < frames[:, tf.newaxis]  # [B, T]
    problems = tf.reduce_max(tf.where(own, problems, NO_PROBLEM), 1)  # [B]
    problems = tf.where(frames == 0, EMPTY, problems)
    # One more row, which is none of the request's, so that there always is a clip.
    rows = tf.where(tf.concat([problems == NO_PROBLEM, [True]], 0))[:, 0]
    rows = tf.cast(rows[: tf.maximum(tf.size(rows) - 1, 1)], tf.int32)  # [N]
    # A black frame behind all others is the spare row's, and pads.
    black = count * longest
    places = tf.where(decoded.rows < 0, black, decoded.rows)
    pixels = tf.cast(tf.round(decoded.pixels), tf.uint8)  # as records hold them
    shape = tf.concat([[black + 1], tf.shape(pixels)[1:]], 0)
    every = tf.scatter_nd(places[:, tf.newaxis], pixels, shape)  # [B * T + 1, S, S, 3]
    lengths = tf.gather(tf.concat([frames, [1]], 0), rows)  # [N]
    wanted = rows[:, tf.newaxis] * longest + numbers  # [N, T]
    wanted = tf.where(numbers < lengths[:, tf.newaxis], wanted, black)
    wanted = wanted[:, : tf.reduce_max(lengths)]
    real = tf.where(rows < count, rows, -1)
    inputs = {"pixels": tf.gather(every, wanted), "frames": lengths}
    return Clips(real[:, tf.newaxis], inputs, problems)


def black_clip(size: int) -> np.ndarray:
    """A clip to warm up with, string [1, F]: what is seen makes no difference to the time."""
    black = tf.io.encode_jpeg(np.zeros([size, size, 3], np.uint8)).numpy()
    return np.array([[black] * _WARM_FRAMES], object)
