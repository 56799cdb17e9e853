"""Normalisation of activations and of weights."""

import tensorflow as tf

# Added to variances, so that equal values become zeros.
_EPSILON = 1e-5
# Squared norms below it count as it, so that a direction of zeros gives a weight of zeros.
_SMALL_SQUARE = 1e-12


def layer_normalized(values: tf.Tensor, gain: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """`gain ⊙ (a - μ) / σ + shift` over features (Ba et al. 2016, section 3.1).

    Args:
        values: a, [..., G].
        gain: [G], float32 or float64.
        shift: [G], as `gain`.

    Returns:
        [..., G] in the dtype of `values`; mean and deviation are at least float32.
    """
    precise = tf.cast(values, gain.dtype)  # [..., G]
    mean = tf.reduce_mean(precise, -1, keepdims=True)  # [..., 1]
    centred = precise - mean  # [..., G]
    variance = tf.reduce_mean(centred * centred, -1, keepdims=True)  # [..., 1]
    return tf.cast(centred * tf.math.rsqrt(variance + _EPSILON) * gain + shift, values.dtype)


def weight_normalized(direction: tf.Tensor, gain: tf.Tensor) -> tf.Tensor:
    """`w = g v / ‖v‖` of every column (Salimans & Kingma 2016, section 2).

    Args:
        direction: v, [F, G].
        gain: g, [G].

    Returns:
        w, [F, G].
    """
    return gain * tf.math.l2_normalize(direction, 0, _SMALL_SQUARE)
