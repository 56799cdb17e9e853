"""The tagging model: a tag for each word, read in its sentence and by its spelling."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.encoders import RecurrentEncoder, with_a_position, with_a_step
from models.projection import VocabularyProjection
from models.sequence_model import SequenceModel
from models.special_ids import MARK_IDS, PAD_ID, UNKNOWN_ID
from models.spelling import SPELLINGS, SpellingReader


class Tags(NamedTuple):
    """The likeliest tags."""

    ids: tf.Tensor  # [B, S], int32; `PAD_ID` where there is no word
    probabilities: tf.Tensor  # [B, S], float32; 0 where there is no word


def likeliest_tags(logits: tf.Tensor, real: tf.Tensor) -> Tags:
    """The likeliest tag at each place.

    Args:
        logits: Float32 [B, S, V].
        real: Bool [B, S], false where there is nothing to tag.
    """
    ids = tf.argmax(logits, -1, tf.int32)  # [B, S]
    best = tf.reduce_max(tf.nn.softmax(logits), -1)  # [B, S]
    return Tags(tf.where(real, ids, PAD_ID), tf.where(real, best, 0.0))


@keras.saving.register_keras_serializable("seqloom")
class WordEncoder(RecurrentEncoder):
    """`RecurrentEncoder` of words that are known by their spelling too.

    Args:
        *args: Of `RecurrentEncoder`.
        spelling: `kind`, a key of `SPELLINGS`, and what it takes; None reads ids alone.
        word_dropout: Share of words that are read as unknown while training.
        **kwargs: Of `RecurrentEncoder`.
    """

    def __init__(
        self,
        *args: Any,
        spelling: dict[str, Any] | None = None,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.spelling_options = dict(spelling) if spelling else None
        self.spelling: SpellingReader | None = None
        if spelling:
            options = dict(spelling)
            reader = SPELLINGS[options.pop("kind")]
            self.spelling = reader(**options, dtype=self.dtype_policy, name="spelling")
        # Of ones in float32, so that what is dropped is 0 and nothing else is.
        self.word_dropout = keras.layers.Dropout(word_dropout, dtype="float32", name="word_dropout")

    def build(self, *_: Any) -> None:
        """Build for ids [B, S] and bytes [B, S, C]."""
        size = self.embedding.output_dim
        if self.spelling:
            self.spelling.build()
            size += self.spelling.size
        self.embedding.build((None, None))
        self.stack.build((None, None, size))
        for layer in self.self_attention:
            layer.build()

    def call(  # type: ignore[override]
        self, ids: tf.Tensor, training: bool = False, characters: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Encode.

        Args:
            ids: Int32 [B, S], padded on the right with `PAD_ID`.
            training: Whether dropout is on.
            characters: Int32 [B, S, C], bytes of the words, if spelling is read; S may be more.

        Returns:
            States [B, S, M] and the mask of the words, bool [B, S]; S is 1 where `ids` has no
            column.
        """
        ids = with_a_position(ids)  # [B, S]
        mask = tf.not_equal(ids, PAD_ID)  # [B, S]
        known = self.word_dropout(tf.ones(tf.shape(ids), tf.float32), training=training)  # [B, S]
        words = tf.where(mask & tf.equal(known, 0.0), UNKNOWN_ID, ids)  # [B, S]
        embedded = self.embedding(words)  # [B, S, E]
        if self.spelling:
            characters = _of_width(characters, tf.shape(ids)[1])  # [B, S, C]
            spelled = self.spelling(characters, training=training)  # [B, S, F]
            embedded = tf.concat([embedded, spelled], -1)  # [B, S, E + F]
        embedded = self.dropout(embedded, training=training)
        read = with_a_step(mask)  # [B, S]
        states, _ = self.stack(embedded, mask=read, training=training)  # [B, S, M]
        for layer in self.self_attention:
            states, _ = layer(states, mask=mask, training=training)  # [B, S, M]
        # The layers left Keras's mask on the tensor, which Keras would hand on from here.
        return tf.identity(states), mask

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal encoder."""
        return {
            **super().get_config(),
            "spelling": self.spelling_options,
            "word_dropout": self.word_dropout.rate,
        }


@keras.saving.register_keras_serializable("seqloom")
class TaggingModel(SequenceModel):
    """Recurrent encoder of words with a projection to tags (Huang et al. 2015).

    Inputs are a dict of int32 ids padded on the right: `source` [B, S] and, if the spelling is
    read, `characters` [B, S, C], the bytes of the words as `models.spelling.spell` gives them.
    Labels [B, S] are tags, one a word.

    Args:
        source_vocabulary_size: Words.
        target_vocabulary_size: Tags, the marks among them.
        cell: Of the encoder.
        embedding_size: Features of a word's embedding.
        dropout: Share dropped on what is known of a word, between layers and on features.
        encoder: `layers`, `units` and so on of `RecurrentEncoder`.
        spelling: `kind` and options of a reader of spellings; None reads ids alone.
        word_dropout: Share of words that are read as unknown while training.
        initializer_range: Kernels start in U(-range, range).
        cell_options: Of the encoder.
        variational_dropout: Of the encoder.
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        cell: str = "lstm",
        embedding_size: int = 256,
        dropout: float = 0.0,
        encoder: dict[str, Any] | None = None,
        spelling: dict[str, Any] | None = None,
        word_dropout: float = 0.0,
        initializer_range: float = 0.1,
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.options: dict[str, Any] = {
            "source_vocabulary_size": source_vocabulary_size,
            "target_vocabulary_size": target_vocabulary_size,
            "cell": cell,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "encoder": dict(encoder or {}),
            "spelling": dict(spelling) if spelling else None,
            "word_dropout": word_dropout,
            "initializer_range": initializer_range,
            "cell_options": dict(cell_options or {}),
            "variational_dropout": dict(variational_dropout or {}),
        }
        self.encoder = WordEncoder(
            source_vocabulary_size,
            embedding_size,
            cell,
            dropout=dropout,
            initializer_range=initializer_range,
            spelling=spelling,
            word_dropout=word_dropout,
            cell_options=cell_options,
            variational_dropout=variational_dropout,
            **self.options["encoder"],
            dtype=self.dtype_policy,
            name="encoder",
        )
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.projection = VocabularyProjection(
            target_vocabulary_size,
            self.encoder.memory_size,
            initializer_range,
            dtype=self.dtype_policy,
            name="projection",
        )

    def build(self, *_: Any) -> None:
        """Create all variables."""
        self.encoder.build()
        self.projection.build()
        self.built = True

    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, S, H] of the words."""
        states, _ = self.encoder(
            inputs["source"], training=training, characters=inputs.get("characters")
        )  # [B, S, H]
        return self.dropout(states, training=training)

    def tag(self, inputs: dict[str, tf.Tensor]) -> Tags:
        """The likeliest tag of each word.

        Args:
            inputs: Of `features`; S may be 0.
        """
        logits = self.projection(self.features(inputs), excluded=MARK_IDS)  # [B, S or 1, V]
        logits = logits[:, : tf.shape(inputs["source"])[1]]  # [B, S, V]
        real = tf.not_equal(inputs["source"], PAD_ID)  # [B, S]
        return likeliest_tags(logits, real)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model."""
        return {**super().get_config(), **self.options}


def _of_width(characters: tf.Tensor | None, width: tf.Tensor) -> tf.Tensor:
    """Bytes [B, width, C] of words [B, S, C]: as wide as the ids beside them are padded."""
    if characters is None:
        raise ValueError("the model reads spellings, and its inputs have no 'characters'")
    cut = characters[:, :width]
    return tf.pad(cut, [[0, 0], [0, width - tf.shape(cut)[1]], [0, 0]])
