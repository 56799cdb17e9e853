"""The visual answering model: a question is asked of a picture, and a label answers."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.agreement import Agreement
from models.attention.contract import Draw
from models.projection import VocabularyProjection
from models.reads import Reads
from models.seen_questions import SeenQuestionEncoder, without_weights
from models.sequence_model import Reading, SequenceModel
from models.special_ids import MARK_IDS
from models.story_encoders import summary


class VisualAnswers(NamedTuple):
    """Answers to B questions about pictures."""

    labels: tf.Tensor  # [B], int32: the likeliest
    probabilities: tf.Tensor  # [B], float32: of each
    weights: tf.Tensor  # [B, K, R, C], float32: attention of each look at the picture


class _Looked(NamedTuple):
    features: tf.Tensor  # [B, 1, M], compute dtype
    weights: tf.Tensor  # [B, K, R, C], float32
    draw: Draw  # [B, K]


@keras.saving.register_keras_serializable("seqloom")
class VisualAnsweringModel(SequenceModel):
    """Stacked attention over the grid of a picture (Yang et al. 2016).

    The question's final state asks for cells of the picture, several times if there are more
    hops (`models.reads.Reads`). What the last one asked, u, what it found, c, and how far any cell
    agrees with the question's words, a (`models.agreement.Agreement`), give
    `relu(W' relu(W [u; c; a] + b) + b')`, from which labels are projected. A yes depends on whether
    both agree and on whether the question denies it, for which one layer is too few.

    Inputs are those of `models.seen_questions.SeenQuestionEncoder`. Labels are [B, 1].

    Args:
        vocabulary_size: Pieces of questions.
        label_count: Labels, marks included.
        cell: A key of `models.cells.kinds.CELLS`.
        hops: Looks K at the picture.
        embedding_size: Features of an embedding.
        dropout: Share dropped on embeddings, between layers, on cells and on features.
        encoder: The rest of the options of `SeenQuestionEncoder`.
        attention: Options of `models.attention.kinds.make_attention`.
        initializer_range: Kernels start in U(-range, range), but for those after the looks, which
            start as Glorot and Bengio (2010) have it.
        cell_options: What the cell takes of `models.cells.options`.
        variational_dropout: Shares dropped by one mask a sequence.

    Raises:
        UserError: If the attention goes by the place of a word, or there is no such network.
    """

    def __init__(
        self,
        vocabulary_size: int,
        label_count: int,
        cell: str = "lstm",
        hops: int = 1,
        embedding_size: int = 256,
        dropout: float = 0.0,
        encoder: dict[str, Any] | None = None,
        attention: dict[str, Any] | None = None,
        initializer_range: float = 0.1,
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.options: dict[str, Any] = {
            "vocabulary_size": vocabulary_size,
            "label_count": label_count,
            "cell": cell,
            "hops": hops,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "encoder": dict(encoder or {}),
            "attention": dict(attention or {"score": "general", "units": None}),
            "initializer_range": initializer_range,
            "cell_options": dict(cell_options or {}),
            "variational_dropout": dict(variational_dropout or {}),
        }
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        self.encoder = SeenQuestionEncoder(
            vocabulary_size,
            embedding_size,
            cell=cell,
            dropout=dropout,
            initializer_range=initializer_range,
            cell_options=cell_options,
            variational_dropout=variational_dropout,
            **self.options["encoder"],
            **own,
            name="encoder",
        )
        self.size = self.encoder.memory_size
        self.reads = Reads(
            self.size, hops, self.options["attention"], initializer_range, **own, name="reads"
        )
        self.agreement = Agreement(self.size, **own, name="agreement")
        self.joined = keras.layers.Dense(self.size, activation="relu", **own, name="joined")
        self.decided = keras.layers.Dense(self.size, activation="relu", **own, name="decided")
        self.dropout = keras.layers.Dropout(dropout, **own, name="dropout")
        self.projection = VocabularyProjection(
            label_count, self.size, initializer_range, **own, name="projection"
        )

    def build(self, *_: Any) -> None:
        """Create all variables."""
        self.encoder.build()
        self.reads.build()
        self.agreement.build()
        self.joined.build((None, None, 3 * self.size))
        self.decided.build((None, None, self.size))
        self.projection.build()
        self.built = True

    @property
    def pretrained(self) -> list[keras.Variable]:
        """Those of a network whose weights come from elsewhere."""
        return self.encoder.pretrained

    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, 1, M] of questions."""
        return self._look(inputs, training).features

    def read(self, inputs: dict[str, tf.Tensor], training: bool = False) -> Reading:
        """`features`, and what an attention that draws adds to the loss."""
        looked = self._look(inputs, training)
        return self.reads.reading(looked.features, looked.draw)

    def answer(self, inputs: dict[str, tf.Tensor]) -> VisualAnswers:
        """Answer.

        Args:
            inputs: Questions and their pictures.
        """
        looked = self._look(inputs, training=False)
        logits = self.projection(looked.features[:, 0], excluded=MARK_IDS)  # [B, V]
        return VisualAnswers(
            tf.argmax(logits, -1, output_type=tf.int32),
            tf.reduce_max(tf.nn.softmax(logits), -1),
            looked.weights,
        )

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model but for a network's weights."""
        encoder = dict(self.options["encoder"])
        encoder["backbone"] = without_weights(encoder.get("backbone"))
        return {**super().get_config(), **self.options, "encoder": encoder}

    def _look(self, inputs: dict[str, tf.Tensor], training: bool) -> _Looked:
        """Look at the picture once a hop, each time for something else."""
        grid, words = self.encoder.see(inputs, training)  # [B, R, C, M]
        shape = tf.shape(grid)
        cells = tf.reshape(grid, [shape[0], shape[1] * shape[2], self.size])  # [B, R * C, M]
        memory = self.reads.prepare(cells, tf.fill(tf.shape(cells)[:2], True))
        asked = summary(words.final_states, self.encoder.stack)  # [B, M]
        read = self.reads(asked, memory, training=training)
        agreed = self.agreement(words.memory, words.mask, cells)  # [B, 1, M]
        joined = self.joined(tf.concat([read.query, read.context, agreed], 2))  # [B, 1, M]
        features = self.decided(joined)  # [B, 1, M]
        maps = tf.reshape(read.weights, [shape[0], self.reads.hops, shape[1], shape[2]])
        return _Looked(self.dropout(features, training=training), maps, read.draw)
