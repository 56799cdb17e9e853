"""Texts of language models: one line, or a stream of lines parted by end marks."""

import tensorflow as tf

from models.special_ids import END_ID, PAD_ID
from models.tokenizers import TextVocabulary, with_end


class LineTexts:
    r"""Texts to ids and back, as graph ops.

    In a stream, `\n` (or `\r\n`) is the end mark of a line; else a text is one line.

    Args:
        vocabulary: Of the lines.
        stream: Whether texts are streams.
    """

    def __init__(self, vocabulary: TextVocabulary, stream: bool):
        self.vocabulary = vocabulary
        self.stream = stream

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids, ragged int32 [B, (S)], of valid strings [B]; no mark begins or ends a text."""
        if not self.stream:
            return self.vocabulary.encode(texts)
        lines = tf.strings.split(tf.strings.regex_replace(texts, "\r\n", "\n"), "\n")  # [B, (N)]
        ids = with_end(self.vocabulary.encode(lines.flat_values))  # [B * N, (S)]
        together = tf.RaggedTensor.from_row_splits(ids, lines.row_splits)  # [B, (N), (S)]
        return together.merge_dims(1, 2)[:, :-1]

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Strings [B] of int32 ids [B, L], padded."""
        if not self.stream:
            return self.vocabulary.decode(ids)
        kept = tf.RaggedTensor.from_tensor(ids)  # [B, (L)]
        kept = tf.ragged.boolean_mask(kept, kept != PAD_ID)
        words, rows = kept.flat_values, kept.value_rowids()  # [W]
        ends = tf.equal(words, END_ID)  # [W]
        # Every row begins a line, and so does every end mark.
        line = tf.cumsum(tf.cast(ends, tf.int64), exclusive=True) + rows  # [W]
        per_row = tf.math.unsorted_segment_sum(tf.cast(ends, tf.int64), rows, kept.nrows()) + 1
        lines = tf.RaggedTensor.from_value_rowids(
            tf.boolean_mask(words, ~ends),
            tf.boolean_mask(line, ~ends),
            nrows=tf.reduce_sum(per_row),
        )  # [N, (W)]
        # A separator would not be put after lines that are empty.
        ended = tf.strings.join([self.vocabulary.decode(lines), "\n"])  # [N]
        texts = tf.strings.reduce_join(tf.RaggedTensor.from_row_lengths(ended, per_row), -1)
        kept = tf.strings.length(texts) - 1  # [B]
        return tf.strings.substr(texts, tf.zeros_like(kept), kept)

    def continuation(self, prompts: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """What ids add to the text of a prompt, the space before them too.

        Args:
            prompts: Int32 [B, P], padded on the right.
            ids: Int32 [B, L], padded on the right.

        Returns:
            Strings [B].
        """
        before = self.decode(prompts)
        whole = self.decode(tf.concat([prompts, ids], 1))
        start = tf.minimum(tf.strings.length(before), tf.strings.length(whole))
        return tf.strings.substr(whole, start, tf.strings.length(whole) - start)
