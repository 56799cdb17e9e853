"""Questions about pictures: the grid of a picture beside the words that ask about it."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import keras
import tensorflow as tf

from models.encoders import EncoderOutput, RecurrentEncoder
from models.initializers import uniform
from models.vision.contract import Backbone
from models.vision.kinds import make_backbone
from models.vision.neighbours import distinct_neighbours


class SeenQuestion(NamedTuple):
    """What is known of a question before anything is looked for."""

    grid: tf.Tensor  # [B, R, C, M], compute dtype
    words: EncoderOutput  # of the question, M features a word


@keras.saving.register_keras_serializable("seqloom")
class SeenQuestionEncoder(keras.layers.Layer):
    """A recurrent encoder of the question, and the picture's cells as wide as its outputs.

    A cell is `v = tanh(W f + b)` of its features f (Yang et al. 2016, section 3.1): those of a
    frozen network, which are given, or those of a network that is trained with the rest.

    Inputs are a dict: `question` int32 [B, Q], each row ending in the end mark, and `features`
    [B, R, C, F], or `pixels` [B, S, S, 3] in 0..255 where a network is trained. Of equal
    pictures in neighbouring rows it sees one.

    Args:
        vocabulary_size: Pieces of questions.
        embedding_size: Features of an embedding.
        feature_size: Features F of a cell that is given; 0 where a network is trained.
        backbone: `name` and `weights` of `models.vision.kinds.make_backbone`, of a network that
            is trained; None where features are given.
        dropout: On embeddings, between layers and on cells.
        initializer_range: Kernels start in U(-range, range), but for the network's.
        **options: The rest of `RecurrentEncoder`'s, and of the layer.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int = 256,
        feature_size: int = 0,
        backbone: Mapping[str, Any] | None = None,
        dropout: float = 0.0,
        initializer_range: float = 0.1,
        **options: Any,
    ):
        own = {key: options.pop(key) for key in ("dtype", "name", "trainable") if key in options}
        super().__init__(**own)
        self.feature_size = feature_size
        self.backbone_options = dict(backbone) if backbone else None
        self.backbone: Backbone | None = (
            make_backbone(**backbone, dtype=self.dtype_policy) if backbone else None
        )
        self.words = RecurrentEncoder(
            vocabulary_size,
            embedding_size,
            dropout=dropout,
            initializer_range=initializer_range,
            **options,
            dtype=self.dtype_policy,
            name="words",
        )
        self.cells = keras.layers.Dense(
            self.memory_size,
            activation="tanh",
            kernel_initializer=uniform(initializer_range),
            dtype=self.dtype_policy,
            name="cells",
        )
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    @property
    def stack(self):
        """The recurrent layers over the question."""
        return self.words.stack

    @property
    def memory_size(self) -> int:
        """Features M of a word and of a cell."""
        return self.words.memory_size

    @property
    def reads(self) -> Literal["features", "pixels"]:
        """What it reads of pictures: the name of its input."""
        return "features" if self.backbone is None else "pixels"

    @property
    def pretrained(self) -> list[keras.Variable]:
        """The network's variables, if they come from elsewhere."""
        if self.backbone is None or self.backbone.weights_name is None:
            return []
        return self.backbone.trainable_variables

    def build(self, *_: Any) -> None:
        """Create all variables."""
        feature_size = self.feature_size
        if self.backbone is not None:
            size = self.backbone.picture_size
            self.backbone.build((None, size, size, 3))
            feature_size = self.backbone.feature_size
        self.cells.build((None, None, None, feature_size))
        self.words.build()
        self.built = True

    def see(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> SeenQuestion:
        """The grid and the question, apart."""
        words = self.words(inputs["question"], training=training)  # [B, Q, M]
        grid = self._grid(inputs[self.reads], training)  # [B, R, C, M]
        return SeenQuestion(self.dropout(grid, training=training), words)

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> EncoderOutput:
        """Cells and then words as one memory [B, R * C + Q, M], and the question's final states."""
        grid, words = self.see(inputs, training)
        shape = tf.shape(grid)
        cells = tf.reshape(grid, [shape[0], shape[1] * shape[2], self.memory_size])
        seen = tf.fill(tf.shape(cells)[:2], True)  # [B, R * C]
        return EncoderOutput(
            tf.concat([cells, words.memory], 1),
            tf.concat([seen, words.mask], 1),
            words.final_states,
        )

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal encoder but for the network's weights."""
        words = self.words.get_config()
        return {
            **words,
            **super().get_config(),
            "feature_size": self.feature_size,
            "backbone": without_weights(self.backbone_options),
        }

    def _grid(self, pictures: tf.Tensor, training: bool) -> tf.Tensor:
        """Cells [B, R, C, M] of features or pixels."""
        if self.backbone is None:
            return self.cells(pictures)
        pictures, places = distinct_neighbours(pictures)  # [N, S, S, 3], [B]
        return tf.gather(self.cells(self.backbone(pictures, training=training)), places)


def without_weights(backbone: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A network's options with none to load again, since a saved model brings its own."""
    return {**backbone, "weights": None} if backbone else None
