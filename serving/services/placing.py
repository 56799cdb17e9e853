"""Answers for those rows of a request whose picture could be read, beside rows of errors."""

import tensorflow as tf

from serving import signatures
from serving.services.contract import Outputs


def placed_all(outputs: Outputs, rows: tf.Tensor, problems: tf.Tensor) -> Outputs:
    """Outputs at the rows of what could be read, and for every row what is wrong with it.

    Args:
        outputs: What was found, [N, ...] each.
        rows: Int32 [N, 1], of `models.vision.decoding.DecodedPictures`.
        problems: Error codes, int32 [B].
    """
    count = tf.shape(problems)[0]
    found = {name: placed(each, rows, count) for name, each in outputs.items()}
    return {**found, signatures.ERROR_CODE: problems}


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
