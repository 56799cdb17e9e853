"""The visual generation model: a question is asked of a picture, and words answer."""

from typing import Any

import keras
import tensorflow as tf

from models.encoder_decoder import Begun
from models.encoders import with_a_position
from models.search.hypotheses import SearchLimits, SearchOptions
from models.seen_questions import SeenQuestionEncoder, without_weights
from models.special_ids import PAD_ID
from models.tokenizers import after_begin
from models.translation import TranslationModel


@keras.saving.register_keras_serializable("seqloom")
class VisualGenerationModel(TranslationModel):
    """A translation model whose source is a picture and a question about it.

    The decoder starts from the question's final states, and attends to the cells of the picture
    and to the words of the question together, the cells first.

    Inputs are those of `models.seen_questions.SeenQuestionEncoder`, and `target` int32 [B, T],
    each row starting with the begin mark. Labels [B, T] are the target one word ahead, ending in
    the end mark. A source, as `translate` and `force` take it, is a dict of the former.
    `encoder` has what `SeenQuestionEncoder` takes besides.
    """

    encoder_type = SeenQuestionEncoder

    @property
    def pretrained(self) -> list[keras.Variable]:
        """Those of a network whose weights come from elsewhere."""
        return self.encoder.pretrained

    def source_of(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The question and the picture."""
        return {name: each for name, each in inputs.items() if name != "target"}

    def limits(self, begun: Begun, options: SearchOptions) -> SearchLimits:
        """An answer is not the longer for more cells or words of a question."""
        return SearchLimits.without_source(tf.shape(begun.mask)[0], options)

    def look(self, inputs: dict[str, tf.Tensor], answers: tf.Tensor) -> tf.Tensor:
        """Where the words of answers look; the rest of their attention is on the question.

        Args:
            inputs: Questions and their pictures, which are square.
            answers: Int32 [B, T], the end mark last, padded.

        Returns:
            Attention over the cells, float32 [B, T, R, R]; zero at pads.
        """
        source = self.source_of(inputs)
        weights = self.force(source, after_begin(answers), answers).weights  # [B, T, R * R + Q]
        cells = tf.shape(weights)[2] - tf.shape(with_a_position(inputs["question"]))[1]
        side = tf.cast(tf.round(tf.sqrt(tf.cast(cells, tf.float32))), tf.int32)
        real = tf.cast(tf.not_equal(with_a_position(answers), PAD_ID), tf.float32)  # [B, T]
        seen = weights[:, :, :cells] * real[:, :, tf.newaxis]  # [B, T, R * R]
        return tf.reshape(seen, tf.concat([tf.shape(real), [side, side]], 0))

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model but for a network's weights."""
        config = super().get_config()
        backbone = without_weights(config["encoder"].get("backbone"))
        return {**config, "encoder": {**config["encoder"], "backbone": backbone}}
