"""The lip reading model: the frames of a clip are read, and a text is written."""

from typing import Any

import keras
import tensorflow as tf

from models.clips import ClipEncoder
from models.encoder_decoder import Begun
from models.search.hypotheses import SearchLimits, SearchOptions
from models.seen_questions import without_weights
from models.tokenizers import after_begin
from models.translation import TranslationModel


@keras.saving.register_keras_serializable("seqloom")
class LipReadingModel(TranslationModel):
    """A translation model whose source is a clip (Chung et al. 2017, without their sound).

    Inputs are those of `models.clips.ClipEncoder`, and `target` int32 [B, T], each row starting
    with the begin mark. Labels [B, T] are the target one word ahead, ending in the end mark. A
    source, as `translate` and `force` take it, is a dict of the former.

    Args:
        vocabulary_size: Pieces of texts.
        **options: Those of `TranslationModel`, of which `encoder` has what `ClipEncoder` takes
            besides.
    """

    def __init__(self, vocabulary_size: int, **options: Any):
        super().__init__(0, vocabulary_size, **options)  # Clips have no pieces.

    def make_encoder(self, vocabulary_size: int, common: dict[str, Any]) -> ClipEncoder:
        """One of clips."""
        return ClipEncoder(**common, **self.options["encoder"], name="encoder")

    @property
    def pretrained(self) -> list[keras.Variable]:
        """Those of a network whose weights come from elsewhere."""
        return self.encoder.pretrained

    def source_of(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The clip."""
        return {name: each for name, each in inputs.items() if name != "target"}

    def limits(self, begun: Begun, options: SearchOptions) -> SearchLimits:
        """A clip has no words that its text could be measured by."""
        return SearchLimits.without_source(tf.shape(begun.mask)[0], options)

    def look(self, clips: dict[str, tf.Tensor], texts: tf.Tensor) -> tf.Tensor:
        """Where the pieces of texts, int32 [B, L], the end mark last, look.

        Returns:
            Attention over the frames, float32 [B, L, T]; zero at pads.
        """
        weights = self.force(clips, after_begin(texts), texts).weights  # [B, L, T]
        return weights * tf.cast(tf.not_equal(texts, 0), tf.float32)[:, :, tf.newaxis]

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model but for a network's weights."""
        config = super().get_config()
        del config["source_vocabulary_size"]
        config["vocabulary_size"] = config.pop("target_vocabulary_size")
        backbone = without_weights(config["encoder"]["backbone"])
        return {**config, "encoder": {**config["encoder"], "backbone": backbone}}
