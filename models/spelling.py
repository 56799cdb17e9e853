"""What words are known by besides their ids: the bytes they are spelled with.

A word that no vocabulary holds still has its prefix, its suffix and its capitals. UTF-8's bytes
spell every word of every script, and need no table of their own (Gillick et al. 2016).
"""

import abc
from typing import Any

import keras
import tensorflow as tf

from models.encoders import with_a_position, with_a_step
from models.initializers import uniform
from models.recurrent import RecurrentStack, last_states
from models.special_ids import PAD_ID
from models.vocabulary_pieces import MARKS

SPELLING_SIZE = 256 + len(MARKS)  # ids of bytes, behind those that mean something else


def spell(words: tf.RaggedTensor, longest: int) -> tf.RaggedTensor:
    """Bytes of words.

    Args:
        words: Ragged string [B, (S)].
        longest: Bytes at most; of a longer word the middle is left out, since the ends tell more.

    Returns:
        Ragged int32 [B, (S), (C)], the bytes' values behind the marks.
    """
    letters = tf.strings.bytes_split(words.flat_values)  # [N, (C)]
    lengths = letters.row_lengths()[:, tf.newaxis]  # [N, 1]
    places = tf.ragged.range(letters.row_lengths())  # [N, (C)]
    head = longest - longest // 2
    kept = (places < head) | (places >= lengths - longest // 2)
    letters = tf.ragged.boolean_mask(letters, kept)  # [N, (C)]
    codes = tf.cast(tf.io.decode_raw(letters.flat_values, tf.uint8), tf.int32)
    return words.with_flat_values(letters.with_flat_values(tf.reshape(codes, [-1]) + len(MARKS)))


def cut_words(words: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """The first words of each row.

    Args:
        words: Ragged [B, (S)].
        lengths: Integers [B], how many are kept.
    """
    places = tf.ragged.range(words.row_lengths())  # [B, (S)]
    return tf.ragged.boolean_mask(words, places < tf.cast(lengths, places.dtype)[:, tf.newaxis])


class SpellingReader(keras.layers.Layer, abc.ABC):
    """Contract of the family: spellings become vectors.

    Pads change nothing, and a word without a byte gets a vector that is the same for all such.

    Args:
        embedding_size: Features of a byte, E.
        units: Width of the reader.
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self,
        embedding_size: int = 32,
        units: int = 64,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.embedding_size = embedding_size
        self.units = units
        self.initializer_range = initializer_range
        self.embedding = keras.layers.Embedding(
            SPELLING_SIZE,
            embedding_size,
            uniform(initializer_range),
            dtype=self.dtype_policy,
            name="embedding",
        )

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Features F of a word."""

    @abc.abstractmethod
    def read(self, embedded: tf.Tensor, mask: tf.Tensor, training: bool) -> tf.Tensor:
        """Vectors [N, F] of embedded bytes [N, C, E] with their mask, bool [N, C]."""

    def build(self, *_: Any) -> None:
        """Build for bytes [B, S, C]."""
        self.embedding.build((None, None))

    def call(self, characters: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Read words.

        Args:
            characters: Int32 [B, S, C], padded on the right with `PAD_ID`.
            training: Whether dropout inside a recurrence is on.

        Returns:
            [B, S, F], compute dtype.
        """
        shape = tf.shape(characters)
        rows = with_a_position(tf.reshape(characters, [shape[0] * shape[1], shape[2]]))  # [N, C]
        vectors = self.read(self.embedding(rows), tf.not_equal(rows, PAD_ID), training)  # [N, F]
        return tf.reshape(vectors, [shape[0], shape[1], self.size])  # [B, S, F]

    def compute_mask(self, *_: Any, **__: Any) -> None:
        """No mask travels on: the bytes are gone."""

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "embedding_size": self.embedding_size,
            "units": self.units,
            "initializer_range": self.initializer_range,
        }


@keras.saving.register_keras_serializable("seqloom")
class ConvolvedSpelling(SpellingReader):
    """`max_t tanh(W [e_{t-k}; …; e_{t+k}] + b)` (Ma & Hovy 2016, section 2.1).

    Args:
        window: Bytes that a filter sees.
        **kwargs: Of `SpellingReader`.
    """

    def __init__(self, window: int = 3, **kwargs: Any):
        super().__init__(**kwargs)
        self.window = window
        self.convolution = keras.layers.Conv1D(
            self.units,
            window,
            padding="same",
            activation="tanh",
            kernel_initializer=uniform(self.initializer_range),
            dtype=self.dtype_policy,
            name="convolution",
        )

    @property
    def size(self) -> int:
        """Filters."""
        return self.units

    def build(self, *_: Any) -> None:
        """Build for bytes [B, S, C]."""
        super().build()
        self.convolution.build((None, None, self.embedding_size))

    def read(self, embedded: tf.Tensor, mask: tf.Tensor, training: bool) -> tf.Tensor:
        """The largest answer of each filter, [N, F]."""
        real = mask[:, :, tf.newaxis]  # [N, C, 1]
        # A word more, since a convolution cannot run over none.
        words = tf.pad(embedded * tf.cast(real, embedded.dtype), [[0, 1], [0, 0], [0, 0]])
        answers = self.convolution(words)[:-1]  # [N, C, F]
        # -1 is the least that tanh gives.
        return tf.reduce_max(tf.where(real, answers, -1.0), 1)  # [N, F]

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {**super().get_config(), "window": self.window}


@keras.saving.register_keras_serializable("seqloom")
class RecurrentSpelling(SpellingReader):
    """Final states of a recurrent layer in both directions (Lample et al. 2016, section 4.1).

    Args:
        cell: Of `RecurrentStack`.
        cell_options: Of `RecurrentStack`.
        variational_dropout: Of `RecurrentStack`.
        **kwargs: Of `SpellingReader`.
    """

    def __init__(
        self,
        cell: str = "lstm",
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.stack = RecurrentStack(
            cell,
            self.units,
            bidirectional=True,
            initializer_range=self.initializer_range,
            cell_options=cell_options,
            variational_dropout=variational_dropout,
            dtype=self.dtype_policy,
            name="stack",
        )

    @property
    def size(self) -> int:
        """Hidden states of both directions."""
        return self.stack.output_size

    def build(self, *_: Any) -> None:
        """Build for bytes [B, S, C]."""
        super().build()
        self.stack.build((None, None, self.embedding_size))

    def read(self, embedded: tf.Tensor, mask: tf.Tensor, training: bool) -> tf.Tensor:
        """The states after the last byte and, read backwards, after the first, [N, F].

        Zeros of a word without a byte, as words that pad a sentence are.
        """
        _, states = self.stack(embedded, mask=with_a_step(mask), training=training)
        return last_states(states) * tf.cast(mask[:, :1], embedded.dtype)  # [N, F]

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "cell": self.stack.cell_name,
            "cell_options": self.stack.cell_options,
            "variational_dropout": self.stack.variational_dropout,
        }


SPELLINGS: dict[str, type[SpellingReader]] = {"cnn": ConvolvedSpelling, "rnn": RecurrentSpelling}
