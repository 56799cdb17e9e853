"""Answers for those rows of a request whose picture could be read, beside rows of errors."""

import tensorflow as tf


def placed(values: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Values [N, ...] at their rows of [B, ...], but for a row -1; zeros or "" elsewhere.

    Args:
        values: What was found.
        rows: Int32 [N, 1], of `models.vision.decoding.DecodedPictures`.
        count: Rows B of the request, int32 [].
    """
    real = rows[:, 0] >= 0  # [N]
    rows, values = tf.boolean_mask(rows, real), tf.boolean_mask(values, real)
    shape = tf.concat([[count], tf.shape(values)[1:]], 0)
    empty = tf.fill(shape, tf.constant("" if values.dtype == tf.string else 0, values.dtype))
    return tf.tensor_scatter_nd_update(empty, rows, values)
