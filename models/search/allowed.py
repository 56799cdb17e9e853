"""Which words may come next, whatever the model thinks of them."""

import tensorflow as tf

from models.search.hypotheses import SearchLimits, SearchOptions
from models.special_ids import PAD_ID

# Logits of words that are no words of a text, such as pads, are lower than this.
_NO_WORD = -1e8


def allowed_logits(
    logits: tf.Tensor,
    ids: tf.Tensor,
    time: tf.Tensor,
    limits: SearchLimits,
    options: SearchOptions,
    end_id: int | None,
) -> tf.Tensor:
    """Logits, -inf at words that a hypothesis must not take.

    These are the end mark as long as it is too short, and words that would repeat an n-gram
    (Paulus et al. 2018, section 2.5). Where that leaves no word, the end mark is allowed. As long
    as a prefix goes, only its words are. What a hypothesis scores is left to the model's own
    logits: probability is not shared out anew.

    Args:
        logits: Float32 [B, K, V].
        ids: Int32 [B, K, L], words so far.
        time: Int32 [], how many they are.
        limits: Words at least, and those to begin with.
        options: Size of n-grams that come once.
        end_id: Word that ends a hypothesis; None if none does, and then all words are allowed
            where none is left.

    Returns:
        Float32 [B, K, V]; `logits` themselves where nothing is asked for.
    """
    forbidden = []
    ends = tf.equal(tf.range(tf.shape(logits)[-1]), -1 if end_id is None else end_id)  # [V]
    if limits.min_words is not None and end_id is not None:
        early = (time < limits.min_words)[:, tf.newaxis, tf.newaxis]  # [B, 1, 1]
        forbidden.append(early & ends)
    if options.no_repeat_ngram_size:
        size = options.no_repeat_ngram_size
        forbidden.append(repeating_words(ids, time, size, tf.shape(logits)[-1]))
    kept = logits  # [B, K, V]
    for words in forbidden:
        kept = tf.where(words, -float("inf"), kept)
    if forbidden:
        stuck = tf.reduce_max(kept, -1, keepdims=True) < _NO_WORD  # [B, K, 1]
        kept = tf.where(stuck & (ends if end_id is not None else True), logits, kept)
    if limits.prefix is not None:
        asked = _word_of_prefix(limits.prefix, time)[:, tf.newaxis, tf.newaxis]  # [B, 1, 1]
        other = tf.not_equal(tf.range(tf.shape(logits)[-1]), asked)  # [B, 1, V]
        begun = tf.where(other, -float("inf"), logits)  # [B, K, V]
        kept = tf.where(tf.equal(asked, PAD_ID), kept, begun)
    return kept


def _word_of_prefix(prefix: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """The word that a prefix [B, P] has at a time, int32 [B]; a pad after its end."""
    ended = tf.pad(prefix, [[0, 0], [0, 1]], constant_values=PAD_ID)  # [B, P + 1]
    return ended[:, tf.minimum(time, tf.shape(prefix)[1])]


def repeating_words(ids: tf.Tensor, time: tf.Tensor, size: int, vocabulary: tf.Tensor) -> tf.Tensor:
    """Words that would end an n-gram which the hypothesis has already.

    Args:
        ids: Int32 [B, K, L], words so far.
        time: Int32 [], how many they are.
        size: Words of an n-gram.
        vocabulary: Words V there are.

    Returns:
        Bool [B, K, V].
    """
    shape = tf.shape(ids)
    starts = tf.maximum(shape[2] - size + 1, 0)
    whole = tf.range(starts) + size <= time  # [S]: n-grams that begin here have been said
    same = tf.broadcast_to(whole, [shape[0], shape[1], starts])  # [B, K, S]
    for place in range(size - 1):
        latest = tf.gather(ids, tf.maximum(time - (size - 1) + place, 0), axis=2)  # [B, K]
        same &= tf.equal(ids[:, :, place : place + starts], latest[:, :, tf.newaxis])
    last = ids[:, :, size - 1 : size - 1 + starts]  # [B, K, S]
    rows = tf.reshape(tf.range(shape[0] * shape[1]), [shape[0], shape[1], 1])
    # A negative segment counts nowhere.
    segments = tf.where(same, rows * vocabulary + last, -1)  # [B, K, S]
    ones = tf.ones_like(segments)
    counts = tf.math.unsorted_segment_sum(ones, segments, shape[0] * shape[1] * vocabulary)
    return tf.reshape(counts > 0, [shape[0], shape[1], vocabulary])
