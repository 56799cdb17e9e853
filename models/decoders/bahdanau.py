"""Attention before the recurrent layers."""

import keras
import tensorflow as tf

from models.attention.contract import Attended, AttentionMemory
from models.decoders.contract import Decoder, DecoderState, DecoderStep
from models.recurrent import StackMasks


@keras.saving.register_keras_serializable("seqloom")
class BahdanauDecoder(Decoder):
    """Attention before the recurrent layers (Bahdanau et al. 2015, appendix A.2.2).

    `c = attend(s)`, `s' = f([y; c], s)`, features `tanh(W[s'; c; y])`, where the paper has a
    maxout layer. Each step needs the one before, so known targets are read step by step.
    """

    @property
    def stack_input_size(self) -> int:
        """The word and the context."""
        return self.embedding.output_dim + self.memory_size

    @property
    def combined_size(self) -> int:
        """Hidden state, context and word."""
        return self.features_size + self.memory_size + self.embedding.output_dim

    def advance(
        self,
        embedded: tf.Tensor,
        memory: AttentionMemory,
        state: DecoderState,
        training: bool,
        masks: StackMasks | None = None,
    ) -> DecoderStep:
        """One step from embedded words [B, K, E]."""
        query = state.recurrent[-1].hidden  # [B, K, H]
        context, weights, draw = self.look(query, memory, state, training)
        inputs = tf.concat([embedded, context], -1)  # [B, K, E + M]
        hidden, recurrent = self._step_stack(inputs, state, training, masks)  # [B, K, H]
        features = self.combine(tf.concat([hidden, context, embedded], -1))  # [B, K, H]
        after = DecoderState(recurrent, state.attentional, state.place + 1)
        return DecoderStep(features, weights, draw, after)

    def look(
        self, query: tf.Tensor, memory: AttentionMemory, state: DecoderState, training: bool
    ) -> Attended:
        """The context of a step, by a query [B, K, H]."""
        return self.attention.attend(query, memory, state.place, training)
