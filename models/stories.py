"""Taking texts apart where separators stand in them, as graph ops on ids."""

from typing import NamedTuple

import tensorflow as tf

from models.special_ids import END_ID, PAD_ID


class StoryAndQuestion(NamedTuple):
    """The two parts of a text."""

    story: tf.RaggedTensor  # int32 [B, (S)]
    question: tf.RaggedTensor  # int32 [B, (Q)]


def split_question(ids: tf.RaggedTensor, question_id: int) -> StoryAndQuestion:
    """What stands before the last separator of each row, and what stands behind it.

    A row without a separator is a question about nothing.

    Args:
        ids: Ragged int32 [B, (L)].
        question_id: Of the separator.
    """
    rows = ids.value_rowids()  # [N]
    places = tf.range(tf.size(rows), dtype=rows.dtype) - tf.gather(ids.row_starts(), rows)  # [N]
    marked = tf.where(tf.equal(ids.flat_values, question_id), places, -1)  # [N]
    # Of a row without ids, the least number there is.
    last = tf.maximum(tf.math.unsorted_segment_max(marked, rows, ids.nrows()), -1)  # [B]
    last_of_row = tf.gather(last, rows)  # [N]
    return StoryAndQuestion(
        tf.ragged.boolean_mask(ids, ids.with_flat_values(places < last_of_row)),
        tf.ragged.boolean_mask(ids, ids.with_flat_values(places > last_of_row)),
    )


def split_sentences(ids: tf.Tensor, sentence_id: int) -> tf.Tensor:
    """The sentences of texts, without separators and end marks.

    Empty sentences are left out.

    Args:
        ids: Int32 [B, S], padded on the right with `PAD_ID`.
        sentence_id: Of the separator between sentences.

    Returns:
        Int32 [B, N, W], a row a sentence, padded with `PAD_ID`; N and W are at least 1.
    """
    words = (
        tf.not_equal(ids, PAD_ID) & tf.not_equal(ids, END_ID) & tf.not_equal(ids, sentence_id)
    )  # [B, S]
    before = tf.pad(words, [[0, 0], [1, 0]])[:, :-1]  # [B, S]
    starts = tf.cast(words & ~before, tf.int64)  # [B, S]
    # Sentences are counted over all rows, and then dealt out to them.
    number = tf.cumsum(tf.reshape(starts, [-1])) - 1  # [B * S]
    flat = tf.reshape(words, [-1])  # [B * S]
    sentences = tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(tf.reshape(ids, [-1]), flat),
        tf.boolean_mask(number, flat),
        nrows=tf.reduce_sum(starts),
    )  # [sentences, (W)]
    rows = tf.RaggedTensor.from_row_lengths(sentences, tf.reduce_sum(starts, 1))  # [B, (N), (W)]
    dense = rows.to_tensor(PAD_ID)  # [B, N, W]
    missing = tf.cast(tf.equal(tf.shape(dense), 0), tf.int32)  # [3]
    return tf.pad(dense, [[0, 0], [0, missing[1]], [0, missing[2]]])
