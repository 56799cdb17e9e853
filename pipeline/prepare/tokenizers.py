"""Vocabularies at work in Beam workers, without TensorFlow.

`models.tokenizers` gives the same ids inside a graph.
"""

import abc
from collections.abc import Iterable

import sentencepiece

from models.special_ids import UNKNOWN_ID
from models.vocabulary_pieces import MARKS, byte_pieces, load_pieces


class Tokenizer(abc.ABC):
    """Contract of the family: sentences to ids."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of pieces."""

    @abc.abstractmethod
    def encode(self, sentences: list[bytes]) -> list[list[int]]:
        """Piece ids of each sentence, without begin and end marks; no piece, no id.

        Args:
            sentences: UTF-8, thousands at a time.
        """

    @abc.abstractmethod
    def pieces(self) -> list[str]:
        """All pieces, in the order of their ids."""


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model.

    Args:
        model: Its bytes.
    """

    def __init__(self, model: bytes):
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @property
    def size(self) -> int:
        """Number of pieces."""
        return self._processor.get_piece_size()

    def encode(self, sentences: list[bytes]) -> list[list[int]]:
        """Piece ids of each sentence."""
        # One thread: Beam's workers already take a core each.
        return self._processor.encode(sentences, out_type=int, num_threads=1)

    def pieces(self) -> list[str]:
        """All pieces."""
        return [self._processor.id_to_piece(id) for id in range(self.size)]


class TableTokenizer(Tokenizer):
    """A table of pieces; what stands in it under no id is unknown.

    Args:
        file: A vocabulary file of `models.vocabulary_pieces`.
    """

    def __init__(self, file: bytes):
        kind, self._pieces = load_pieces(file)
        self._split = SPLITTERS[kind]
        # The marks are no text: a word spelled like one is unknown.
        self._ids = {piece: id for id, piece in enumerate(self._pieces) if id >= len(MARKS)}

    @property
    def size(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    def encode(self, sentences: list[bytes]) -> list[list[int]]:
        """Piece ids of each sentence."""
        find = self._ids.get
        return [
            [find(piece, UNKNOWN_ID) for piece in self._split(sentence)] for sentence in sentences
        ]

    def pieces(self) -> list[str]:
        """All pieces."""
        return list(self._pieces)


class ByteTokenizer(TableTokenizer):
    """Bytes, whose ids are their values behind the marks."""

    def encode(self, sentences: list[bytes]) -> list[list[int]]:
        """Ids of each sentence's bytes."""
        return [[byte + len(MARKS) for byte in sentence] for sentence in sentences]


def split_words(sentence: bytes) -> list[str]:
    """Words, parted by ASCII white space alone, as TensorFlow parts them."""
    return [word.decode() for word in sentence.split()]


def split_characters(sentence: bytes) -> list[str]:
    """Code points."""
    return list(sentence.decode())


def whole(sentence: bytes) -> list[str]:
    """The text without the white space around it."""
    return [sentence.strip().decode()]


def split_bytes(sentence: bytes) -> list[str]:
    """Bytes, by the names of their pieces."""
    names = byte_pieces()
    return [names[byte] for byte in sentence]


SPLITTERS = {
    "word": split_words,
    "character": split_characters,
    "byte": split_bytes,
    "label": whole,
}


def make_tokenizer(kind: str, file: bytes) -> Tokenizer:
    """A vocabulary of a kind, from the bytes of its file."""
    return TOKENIZERS[kind](file)


TOKENIZERS: dict[str, type] = {
    "unigram": SentencePieceTokenizer,
    "bpe": SentencePieceTokenizer,
    "word": TableTokenizer,
    "character": TableTokenizer,
    "label": TableTokenizer,
    "byte": ByteTokenizer,
}


def split_by(kind: str, sentences: Iterable[bytes]) -> Iterable[str]:
    """All pieces of sentences as a table of a kind would part them."""
    split = SPLITTERS[kind]
    for sentence in sentences:
        yield from split(sentence)
