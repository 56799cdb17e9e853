"""The few likeliest of many words."""

import tensorflow as tf

# Words of a block. Looking at the highest of each is far cheaper than sorting all of them.
_BLOCK = 64


def likeliest(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """What `tf.math.top_k` gives, also where words are equal, at a fraction of its time.

    The k highest of all words lie in the k blocks with the highest words.

    Args:
        logits: Float32 [B, K, V], V known.
        count: How many to find; at most V.

    Returns:
        The highest logits, float32 [B, K, count], and their words, int32 [B, K, count].
    """
    words = logits.shape[-1]
    if words < 2 * count * _BLOCK:
        return tf.math.top_k(logits, count)
    blocks = -(-words // _BLOCK)
    padding = [[0, 0], [0, 0], [0, blocks * _BLOCK - words]]
    padded = tf.pad(logits, padding, constant_values=-float("inf"))
    rows = tf.shape(logits)[:-1]  # [B, K]
    blocked = tf.reshape(padded, tf.concat([rows, [blocks, _BLOCK]], 0))
    # In their order, so that of equal words the first is taken, as it is by `top_k`.
    best = tf.sort(tf.math.top_k(tf.reduce_max(blocked, -1), count).indices)  # [B, K, count]
    near = tf.gather(blocked, best, batch_dims=2)  # [B, K, count, _BLOCK]
    flat = tf.reshape(near, tf.concat([rows, [count * _BLOCK]], 0))
    values, places = tf.math.top_k(flat, count)  # [B, K, count]
    block = tf.gather(best, places // _BLOCK, batch_dims=2)  # [B, K, count]
    return values, block * _BLOCK + places % _BLOCK
