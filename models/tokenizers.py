"""Text to ids and back, as graph ops on strings."""

import abc
from collections.abc import Sequence

import keras_nlp
import sentencepiece
import tensorflow as tf

from models.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from models.vocabulary_pieces import MARKS, load_pieces


class TextVocabulary(tf.Module, abc.ABC):
    """Contract of the family: a vocabulary that works inside a graph.

    Attributes:
        size: Pieces, marks included.
    """

    size: int

    @property
    @abc.abstractmethod
    def resources(self) -> list[tf.Module]:
        """What a SavedModel must track so that the vocabulary is in it."""

    @abc.abstractmethod
    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids, ragged int32 [B, (S)], of strings [B]; no begin or end mark."""

    @abc.abstractmethod
    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Strings [B] of int32 ids [B, L]; marks and pads say nothing."""

    @abc.abstractmethod
    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """The pieces, strings of the shape of `ids`; pads become empty strings."""

    @abc.abstractmethod
    def piece_id(self, piece: str) -> int:
        """Id of a piece; that of the unknown piece if there is none."""


class SentencePieceText(TextVocabulary):
    """A SentencePiece vocabulary.

    Encoding and decoding have a tokenizer each, because the options of one are shared and
    mutable state in a served graph.

    Args:
        proto: The bytes of a trained SentencePiece model.
    """

    def __init__(self, proto: bytes):
        super().__init__()
        self._encoder = keras_nlp.tokenizers.SentencePieceTokenizer(proto=proto, dtype="int32")
        self._decoder = keras_nlp.tokenizers.SentencePieceTokenizer(proto=proto, dtype="int32")
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
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
        """The two tokenizers."""
        return [self._encoder._sentence_piece, self._decoder._sentence_piece]

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of texts."""
        return self._encode(texts)

    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Texts of ids."""
        return self._decode(without_marks(ids))

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Pieces of ids."""
        names = self._decoder._sentence_piece.id_to_string(ids)
        return tf.where(tf.equal(ids, PAD_ID), tf.zeros_like(names), names)

    def piece_id(self, piece: str) -> int:
        """Id of a piece."""
        return self._processor.piece_to_id(piece)


class TableText(TextVocabulary):
    """A table of pieces; how a text is parted and joined is a member's.

    Args:
        file: A vocabulary file of `models.vocabulary_pieces`.
    """

    separator = ""

    def __init__(self, file: bytes):
        super().__init__()
        self._pieces: list[str] = load_pieces(file)[1]
        self.size = len(self._pieces)
        words = self._pieces[len(MARKS) :]
        # A table without a key cannot be made; no text holds this one.
        keys, ids = words or ["\0"], range(len(MARKS), max(self.size, len(MARKS) + 1))
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(keys), tf.constant(list(ids), tf.int64)
            ),
            UNKNOWN_ID,
        )

    @property
    def resources(self) -> list[tf.Module]:
        """The table."""
        return [self._table]

    @abc.abstractmethod
    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Pieces, ragged string [B, (S)], of strings [B]."""

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of texts."""
        return self.lookup(self.split(texts))

    def lookup(self, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
        """Ids, ragged int32 [B, (S)], of pieces, ragged string [B, (S)]."""
        return pieces.with_flat_values(tf.cast(self._table.lookup(pieces.flat_values), tf.int32))

    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Texts of ids."""
        kept = without_marks(ids)  # [B, (L)]
        names = tf.gather(tf.constant(self._pieces), kept.flat_values)
        return tf.strings.reduce_join(kept.with_flat_values(names), -1, separator=self.separator)

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Pieces of ids."""
        return tf.gather(tf.constant(["", *self._pieces[1:]]), ids)

    def piece_id(self, piece: str) -> int:
        """Id of a piece."""
        known = self._pieces[len(MARKS) :]
        return known.index(piece) + len(MARKS) if piece in known else UNKNOWN_ID


class WordText(TableText):
    """Words, parted by ASCII white space and joined by a space."""

    separator = " "

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The words of texts."""
        return tf.strings.split(texts)


class LabelText(TableText):
    """Labels: a whole text, without the white space around it, is one piece."""

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The texts themselves."""
        return tf.RaggedTensor.from_tensor(tf.strings.strip(texts)[:, tf.newaxis])


class CharacterText(TableText):
    """Code points."""

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The characters of texts."""
        return tf.strings.unicode_split(texts, "UTF-8")


class ByteText(TableText):
    """Bytes; ids of bytes that make no UTF-8 decode to U+FFFD."""

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The bytes of texts, each a string."""
        return tf.strings.bytes_split(texts)

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of texts."""
        values = self.split(texts)  # [B, (S)]
        codes = tf.cast(tf.io.decode_raw(values.flat_values, tf.uint8), tf.int32)
        return values.with_flat_values(tf.reshape(codes, [-1]) + len(MARKS))

    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Texts of ids."""
        kept = without_marks(ids)  # [B, (L)]
        known = kept.flat_values - len(MARKS)
        names = tf.gather(tf.constant([bytes([byte]) for byte in range(256)]), tf.maximum(known, 0))
        joined = tf.strings.reduce_join(kept.with_flat_values(names), -1)
        return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8", errors="replace")


VOCABULARIES: dict[str, type[TextVocabulary]] = {
    "unigram": SentencePieceText,
    "bpe": SentencePieceText,
    "word": WordText,
    "character": CharacterText,
    "byte": ByteText,
    "label": LabelText,
}


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


def ragged_ids(ids: Sequence[Sequence[int]]) -> tf.RaggedTensor:
    """Ragged int32 [B, (S)] of lists of ids."""
    return tf.ragged.constant([list(each) for each in ids], tf.int32, 1)
