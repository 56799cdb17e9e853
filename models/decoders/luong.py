"""Attention after the recurrent layers."""

from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import AttentionMemory
from models.decoders.contract import Decoded, Decoder, DecoderState, DecoderStep
from models.recurrent import StackMasks


@keras.saving.register_keras_serializable("seqloom")
class LuongDecoder(Decoder):
    """Attention after the recurrent layers (Luong et al. 2015, section 3).

    `h = f(y, s)`, `c = attend(h)`, features `tanh(W[c; h])`. Without input feeding no step
    needs the attention of the one before, so known targets are read by one fused recurrent
    layer, and attention and features of all steps are matrix products.

    Args:
        input_feeding: Feed the features into the next step (section 3.3); it then steps.
        **kwargs: Of `Decoder`.
    """

    def __init__(self, *args: Any, input_feeding: bool = False, **kwargs: Any):
        self.input_feeding = input_feeding
        super().__init__(*args, **kwargs)

    @property
    def stack_input_size(self) -> int:
        """The word, and the features of the step before where they are fed."""
        return self.embedding.output_dim + (self.features_size if self.input_feeding else 0)

    @property
    def combined_size(self) -> int:
        """Context and hidden state."""
        return self.memory_size + self.features_size

    def advance(
        self,
        embedded: tf.Tensor,
        memory: AttentionMemory,
        state: DecoderState,
        training: bool,
        masks: StackMasks | None = None,
    ) -> DecoderStep:
        """One step from embedded words [B, K, E]."""
        inputs = tf.concat([embedded, state.attentional], -1)  # [B, K, E (+ H)]
        hidden, recurrent = self._step_stack(inputs, state, training, masks)  # [B, K, H]
        features, weights, draw = self._attend(hidden, memory, state.place, training)
        fed = features if self.input_feeding else state.attentional
        after = DecoderState(recurrent, fed, state.place + 1)
        return DecoderStep(features, weights, draw, after)

    def run(
        self, embedded: tf.Tensor, memory: AttentionMemory, state: DecoderState, training: bool
    ) -> Decoded:
        """All steps at once where nothing is fed back, else one after another."""
        if self.input_feeding:
            return super().run(embedded, memory, state, training)
        first = tf.nest.map_structure(lambda part: part[:, 0], state.recurrent)  # [B, H]
        hidden, _ = self.stack(embedded, initial_state=first, training=training)  # [B, T, H]
        place = state.place + tf.range(tf.shape(embedded)[1])  # [B, T]
        return self._attend(hidden, memory, place, training)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal decoder."""
        return {**super().get_config(), "input_feeding": self.input_feeding}

    @property
    def _feeds_back(self) -> bool:
        return self.input_feeding

    @property
    def _carries_attention(self) -> bool:
        return self.input_feeding

    def _attend(
        self, hidden: tf.Tensor, memory: AttentionMemory, place: tf.Tensor, training: bool
    ) -> Decoded:
        found = self.attention.attend(hidden, memory, place, training)
        features = self.combine(tf.concat([found.context, hidden], -1))  # [B, Q, H]
        return Decoded(features, found.weights, found.draw)
