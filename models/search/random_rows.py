"""Random numbers a row: each row has a seed of its own, and no row depends on its batch.

TensorFlow's stateless generators take one seed a call. Here the cipher is computed for all rows
at once, in ordinary integer operations, which run wherever a graph runs.
"""

import tensorflow as tf

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_BITS = 23  # so that a product with a float32 sum stays below that sum


def row_uniforms(seeds: tf.Tensor, count: tf.Tensor | int) -> tf.Tensor:
    """Numbers in [0, 1) of seeds.

    Args:
        seeds: Int32 [B].
        count: Numbers L a row; of a larger L the first ones are the same.

    Returns:
        Float32 [B, L].
    """
    keys = tf.bitcast(seeds, tf.uint32)[:, tf.newaxis]  # [B, 1]
    places = tf.bitcast(tf.range(count), tf.uint32)[tf.newaxis, :]  # [1, L]
    bits, _ = threefry((keys, tf.zeros_like(keys)), (places, tf.zeros_like(places)))  # [B, L]
    bits = tf.bitwise.right_shift(bits, tf.constant(32 - _BITS, tf.uint32))
    return tf.cast(tf.bitcast(bits, tf.int32), tf.float32) / 2.0**_BITS


def threefry(
    key: tuple[tf.Tensor, tf.Tensor], counter: tuple[tf.Tensor, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Threefry-2x32 of twenty rounds (Salmon et al. 2011).

    Args:
        key: Two uint32 of shapes that broadcast with the counter's.
        counter: Two uint32.

    Returns:
        Two uint32 of the shape of both.
    """
    parity = tf.constant(_PARITY, tf.uint32)
    keys = (*key, tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(*key), parity))
    left, right = counter[0] + key[0], counter[1] + key[1]
    for group in range(5):
        for bits in _ROTATIONS[group % 2]:
            left += right
            right = tf.bitwise.bitwise_xor(_rotated(right, bits), left)
        left += keys[(group + 1) % 3]
        right += keys[(group + 2) % 3] + tf.constant(group + 1, tf.uint32)
    return left, right


def _rotated(number: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.bitwise_or(
        tf.bitwise.left_shift(number, tf.constant(bits, tf.uint32)),
        tf.bitwise.right_shift(number, tf.constant(32 - bits, tf.uint32)),
    )
