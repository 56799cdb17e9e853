"""The frame tagging model: a tag for each frame of a clip, read among the others."""

from typing import Any

import keras
import tensorflow as tf

from models.clips import ClipEncoder
from models.projection import VocabularyProjection
from models.seen_questions import without_weights
from models.sequence_model import SequenceModel
from models.special_ids import MARK_IDS
from models.tagging import Tags, likeliest_tags


@keras.saving.register_keras_serializable("seqloom")
class FrameTaggingModel(SequenceModel):
    """An encoder of clips with a projection to tags: `models.tagging` with frames for words.

    Inputs are those of `models.clips.ClipEncoder`. Labels [B, T] are tags, one a frame.

    Args:
        vocabulary_size: Tags, the marks among them.
        cell: Of the encoder.
        embedding_size: Features of a frame.
        dropout: Share dropped on frames, between layers and on features.
        encoder: `backbone`, `layers`, `units` and so on of `ClipEncoder`.
        initializer_range: Kernels start in U(-range, range).
        cell_options: Of the encoder.
        variational_dropout: Of the encoder.
    """

    def __init__(
        self,
        vocabulary_size: int,
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
            "cell": cell,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "encoder": dict(encoder or {}),
            "initializer_range": initializer_range,
            "cell_options": dict(cell_options or {}),
            "variational_dropout": dict(variational_dropout or {}),
        }
        self.encoder = ClipEncoder(
            embedding_size=embedding_size,
            cell=cell,
            dropout=dropout,
            initializer_range=initializer_range,
            cell_options=cell_options,
            variational_dropout=variational_dropout,
            **self.options["encoder"],
            dtype=self.dtype_policy,
            name="encoder",
        )
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.projection = VocabularyProjection(
            vocabulary_size,
            self.encoder.memory_size,
            initializer_range,
            dtype=self.dtype_policy,
            name="projection",
        )

    @property
    def pretrained(self) -> list[keras.Variable]:
        """Those of a network whose weights come from elsewhere."""
        return self.encoder.pretrained

    def build(self, *_: Any) -> None:
        """Create all variables."""
        self.encoder.build()
        self.projection.build()
        self.built = True

    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, T, H] of the frames."""
        memory = self.encoder(inputs, training=training).memory  # [B, T, H]
        # The layers left Keras's mask on it, which the projection would warn of.
        return self.dropout(tf.identity(memory), training=training)

    def tag(self, inputs: dict[str, tf.Tensor]) -> Tags:
        """The likeliest tag of each frame, [B, T].

        Args:
            inputs: Of `features`.
        """
        logits = self.projection(self.features(inputs), excluded=MARK_IDS)  # [B, T, V]
        real = tf.sequence_mask(inputs["frames"], tf.shape(inputs["pixels"])[1])  # [B, T]
        return likeliest_tags(logits, real)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model but for a network's weights."""
        encoder = self.options["encoder"]
        encoder = {**encoder, "backbone": without_weights(encoder["backbone"])}
        return {**super().get_config(), **self.options, "encoder": encoder}
