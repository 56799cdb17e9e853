"""The classification model: a text is read and summed up, and a label is chosen."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.encoders import RecurrentEncoder
from models.errors import UserError
from models.pooling import POOLINGS, Pooling, SentencePooling
from models.projection import VocabularyProjection
from models.recurrent import last_states
from models.sequence_model import SequenceModel
from models.special_ids import MARK_IDS, PAD_ID
from models.stories import split_sentences
from models.tokenizers import with_end

HIERARCHICAL = "hierarchical"


class SummedUp(NamedTuple):
    """Texts as vectors."""

    vectors: tf.Tensor  # [B, F], compute dtype
    weights: tf.Tensor | None  # [B, S] or [B, D, S], float32: share of each word
    sentence_weights: tf.Tensor | None  # [B, D], float32: share of each sentence


class Classified(NamedTuple):
    """What texts are."""

    labels: tf.Tensor  # [B], int32: the likeliest
    probabilities: tf.Tensor  # [B, V], float32: of all; 0 of the marks
    weights: tf.Tensor | None  # as in `SummedUp`
    sentence_weights: tf.Tensor | None


@keras.saving.register_keras_serializable("seqloom")
class ClassificationModel(SequenceModel):
    """Recurrent encoder, pooling, projection to labels.

    Inputs are a dict of int32 ids padded on the right: `source` [B, S], or, under the pooling
    `hierarchical`, [B, D, S], a row a sentence, the empty ones last. Labels are [B, 1].

    The hierarchical model reads the words of each sentence, sums them up by attention, and does
    the same with the sentences (Yang et al. 2016).

    Args:
        vocabulary_size: Pieces of texts.
        label_count: Labels, marks among them.
        pooling: `last`, `mean`, `max`, `attention` or `hierarchical`.
        attention_units: Width of the attention; as wide as a state if None.
        cell: Of the encoder.
        embedding_size: Features of an embedding.
        dropout: Share dropped on embeddings, between layers, on sentences and on features.
        encoder: `layers`, `units` and so on of `RecurrentEncoder`; that of sentences has the same
            but no self-attention.
        initializer_range: Kernels start in U(-range, range).
        cell_options: Of the encoders.
        variational_dropout: Of the encoders.
    """

    def __init__(
        self,
        vocabulary_size: int,
        label_count: int,
        pooling: str = "attention",
        attention_units: int | None = None,
        cell: str = "lstm",
        embedding_size: int = 256,
        dropout: float = 0.0,
        encoder: dict[str, Any] | None = None,
        initializer_range: float = 0.1,
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.options: dict[str, Any] = {
            "vocabulary_size": vocabulary_size,
            "label_count": label_count,
            "pooling": pooling,
            "attention_units": attention_units,
            "cell": cell,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "encoder": dict(encoder or {}),
            "initializer_range": initializer_range,
            "cell_options": dict(cell_options or {}),
            "variational_dropout": dict(variational_dropout or {}),
        }
        _check(pooling, self.options["encoder"])
        recurrent: dict[str, Any] = {
            "cell": cell,
            "dropout": dropout,
            "cell_options": cell_options,
            "variational_dropout": variational_dropout,
        }
        self.encoder = RecurrentEncoder(
            vocabulary_size,
            embedding_size,
            initializer_range=initializer_range,
            **recurrent,
            **self.options["encoder"],
            dtype=self.dtype_policy,
            name="encoder",
        )
        self.pooling = self._make_pooling()
        self.sentences: SentencePooling | None = None
        if pooling == HIERARCHICAL:
            own = {k: v for k, v in self.options["encoder"].items() if k != "self_attention"}
            self.sentences = SentencePooling(
                self.pooling.size,
                {"bidirectional": True, **recurrent, **own},
                attention_units,
                initializer_range,
                dtype=self.dtype_policy,
                name="sentences",
            )
        size = self.sentences.size if self.sentences else self.pooling.size
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.projection = VocabularyProjection(
            label_count, size, initializer_range, dtype=self.dtype_policy, name="projection"
        )

    def build(self, *_: Any) -> None:
        """Create all variables."""
        self.encoder.build()
        self.pooling.build()
        if self.sentences:
            self.sentences.build()
        self.projection.build()
        self.built = True

    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, 1, F] of the texts."""
        vectors = self.sum_up(inputs["source"], training).vectors  # [B, F]
        return self.dropout(vectors, training=training)[:, tf.newaxis, :]

    def sum_up(self, source: tf.Tensor, training: bool = False) -> SummedUp:
        """Vectors of texts.

        Args:
            source: Int32 [B, S], or [B, D, S] under the pooling `hierarchical`.
            training: Whether dropout is on.
        """
        if not self.sentences:
            return SummedUp(*self._read(source, training), None)
        shape = tf.shape(source)  # [3]
        real = tf.reduce_any(tf.not_equal(source, PAD_ID), 2)  # [B, D]
        rows = tf.reshape(source, [shape[0] * shape[1], shape[2]])  # [B * D, S]
        if self.drop_pads:
            places = tf.where(tf.reshape(real, [-1]))  # [N, 1]
            vectors, weights = self._read(tf.gather_nd(rows, places), training)  # [N, F], [N, S]
            many = tf.size(real, tf.int64)
            vectors = tf.scatter_nd(places, vectors, [many, self.pooling.size])  # [B * D, F]
            weights = tf.scatter_nd(places, weights, tf.cast(tf.shape(rows), tf.int64))
        else:
            vectors, weights = self._read(rows, training)  # [B * D, F], [B * D, S]
        vectors = self.dropout(vectors, training=training)
        vectors = tf.reshape(vectors, [shape[0], shape[1], self.pooling.size])  # [B, D, F]
        texts, sentence_weights = self.sentences(vectors, real, training=training)  # [B, M], [B, D]
        return SummedUp(texts, tf.reshape(weights, shape), sentence_weights)

    def classify(self, source: tf.Tensor) -> Classified:
        """Labels of texts.

        Args:
            source: Of `sum_up`.
        """
        summed_up = self.sum_up(source)
        logits = self.projection(summed_up.vectors, excluded=MARK_IDS)  # [B, V]
        return Classified(
            tf.argmax(logits, -1, tf.int32),
            tf.nn.softmax(logits),
            summed_up.weights,
            summed_up.sentence_weights,
        )

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model."""
        return {**super().get_config(), **self.options}

    def _read(self, ids: tf.Tensor, training: bool) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Vectors [N, F] of rows of words [N, S], and the words' weights [N, S]."""
        encoded = self.encoder(ids, training=training)
        last = last_states(encoded.final_states)  # [N, L]
        vectors, weights = self.pooling(encoded.memory, encoded.mask, last)
        return vectors, weights

    def _make_pooling(self) -> Pooling:
        kind = self.options["pooling"]
        stack = self.encoder.stack
        return POOLINGS["attention" if kind == HIERARCHICAL else kind](
            self.encoder.memory_size,
            stack.hidden_size * (2 if stack.bidirectional else 1),
            self.options["attention_units"],
            self.options["initializer_range"],
            dtype=self.dtype_policy,
            name="pooling",
        )


def classification_source(ids: tf.RaggedTensor, pooling: str, sentence_id: int) -> tf.Tensor:
    """What a model reads of texts.

    Args:
        ids: Pieces without marks, ragged int32 [B, (L)].
        pooling: Of the model.
        sentence_id: Id of the separator between sentences.

    Returns:
        Int32 [B, S], each row ending in the end mark, or [B, D, S] under `hierarchical`, without
        separators; padded.
    """
    if pooling == HIERARCHICAL:
        return split_sentences(ids.to_tensor(), sentence_id)
    return with_end(ids).to_tensor()


def _check(pooling: str, encoder: dict[str, Any]) -> None:
    if pooling not in (*POOLINGS, HIERARCHICAL):
        raise UserError(
            f"model.classification.pooling: got {pooling!r}, expected one of "
            f"{', '.join([*POOLINGS, HIERARCHICAL])}"
        )
    layers = (encoder.get("self_attention") or {}).get("layers", 0)
    if pooling == "last" and layers:
        raise UserError(
            f"model.classification.pooling 'last' reads recurrent states, and "
            f"model.encoder.self_attention.layers is {layers} upon them, unread; set it to 0, or "
            f"choose another pooling"
        )
