"""Text to ids and back, as graph ops on strings."""

import keras_nlp
import tensorflow as tf

from models.special_ids import BEGIN_ID, END_ID, PAD_ID


class SentencePieceText(tf.Module):
    """A SentencePiece vocabulary that works inside a graph.

    Encoding and decoding have a tokenizer each, because the options of one are shared and
    mutable state in a served graph.

    Args:
        proto: The bytes of a trained SentencePiece model.
    """

    def __init__(self, proto: bytes):
        super().__init__()
        self._encoder = keras_nlp.tokenizers.SentencePieceTokenizer(proto=proto, dtype="int32")
        self._decoder = keras_nlp.tokenizers.SentencePieceTokenizer(proto=proto, dtype="int32")
        self.size = int(self._encoder.vocabulary_size())
        # Outside a graph these tokenizers give Python lists; within one, always tensors.
        self._encode = tf.function(
            self._encoder.tokenize, input_signature=[tf.TensorSpec([None], tf.string)]
        )
        self._decode = tf.function(
            self._decoder.detokenize,
            input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)],
        )

    @property
    def resources(self) -> list[tf.Module]:
        """What a SavedModel must track so that the vocabulary is in it."""
        return [self._encoder._sentence_piece, self._decoder._sentence_piece]

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids, ragged int32 [B, (S)], of strings [B]; no begin or end mark."""
        return self._encode(texts)

    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Strings [B] of int32 ids [B, L]; marks and pads say nothing."""
        return self._decode(without_marks(ids))

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """The pieces, strings of the shape of `ids`; pads become empty strings."""
        names = self._decoder._sentence_piece.id_to_string(ids)
        return tf.where(tf.equal(ids, PAD_ID), tf.zeros_like(names), names)


def without_marks(ids: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
    """Rows of ids [B, L] without pads, begin and end marks, ragged [B, (L)]."""
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.RaggedTensor.from_tensor(ids)
    keep = (ids != PAD_ID) & (ids != BEGIN_ID) & (ids != END_ID)
    return tf.ragged.boolean_mask(ids, keep)


def with_end(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Rows of ids with the end mark after them."""
    return tf.concat([ids, tf.fill([ids.nrows(), 1], END_ID)], 1)


def with_begin(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Rows of ids with the begin mark before them."""
    return tf.concat([tf.fill([ids.nrows(), 1], BEGIN_ID), ids], 1)


def after_begin(labels: tf.Tensor) -> tf.Tensor:
    """Decoder inputs [B, T] of padded labels [B, T]: one word later, begin mark first."""
    begin = tf.fill([tf.shape(labels)[0], 1], BEGIN_ID)
    return tf.concat([begin, labels[:, :-1]], 1)
