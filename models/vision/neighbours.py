"""Pictures that come several times in a row, as they do where many questions are about one."""

from typing import NamedTuple

import tensorflow as tf


class Distinct(NamedTuple):
    """Pictures of which no two neighbours are equal, and where each row's is."""

    pictures: tf.Tensor  # [N, ...]
    places: tf.Tensor  # [B], int32, in 0..N-1


def distinct_neighbours(pictures: tf.Tensor) -> Distinct:
    """Keep one of each run of equal pictures, so that a network sees it once.

    Args:
        pictures: [B, H, W, C].
    """
    rows = tf.shape(pictures)[0]
    flat = tf.reshape(pictures, [rows, tf.reduce_prod(tf.shape(pictures)[1:])])  # [B, P]
    before = tf.roll(flat, 1, 0)  # [B, P]
    differs = tf.reduce_any(tf.not_equal(flat, before), 1)  # [B]
    starts = differs | tf.equal(tf.range(rows), 0)  # [B]
    places = tf.cumsum(tf.cast(starts, tf.int32)) - 1  # [B]
    return Distinct(tf.boolean_mask(pictures, starts), places)
