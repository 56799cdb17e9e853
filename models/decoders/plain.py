"""Decoders of one vector to many words, without attention."""

from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import Attention, AttentionMemory
from models.attention.mean import MeanAttention, mean_weights
from models.decoders.bahdanau import BahdanauDecoder
from models.decoders.contract import Decoded, Decoder, DecoderState, DecoderStep
from models.encoders import EncoderOutput
from models.initializers import uniform
from models.recurrent import StackMasks


class MeanDecoder(Decoder):
    """A decoder whose context is the mean of the memory; options of attention are not read."""

    def _make_attention(self) -> Attention:
        return MeanAttention(
            self.features_size,
            self.memory_size,
            self.initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )


@keras.saving.register_keras_serializable("seqloom")
class EveryStepDecoder(MeanDecoder, BahdanauDecoder):
    """Reads the mean with every word: `s' = f([y; m], s)`, features `tanh(W[s'; m; y])`."""


@keras.saving.register_keras_serializable("seqloom")
class FirstInputDecoder(MeanDecoder):
    """Reads the mean once, before the first word (Vinyals et al. 2015, section 3.1).

    `s_0 = f(W m, bridge)`, `s' = f(y, s)`, features `tanh(V s')`. Known targets are read by one
    fused recurrent layer.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.enter = keras.layers.Dense(
            self.embedding.output_dim,
            kernel_initializer=uniform(self.initializer_range),
            dtype=self.dtype_policy,
            name="enter",
        )

    @property
    def stack_input_size(self) -> int:
        """The word."""
        return self.embedding.output_dim

    @property
    def combined_size(self) -> int:
        """Hidden state."""
        return self.features_size

    def build(self, *_: Any) -> None:
        """Build all parts."""
        super().build()
        self.enter.build((None, self.memory_size))

    def prepare(self, source: EncoderOutput) -> tuple[AttentionMemory, DecoderState]:
        """The state after the mean was read."""
        memory, state = super().prepare(source)
        weights = tf.cast(mean_weights(memory.mask), memory.values.dtype)  # [B, S]
        mean = tf.linalg.matvec(memory.values, weights, transpose_a=True)  # [B, M]
        inputs = self.enter(mean)[:, tf.newaxis]  # [B, 1, E]
        _, recurrent = self._step_stack(inputs, state, training=False, masks=None)
        return memory, state._replace(recurrent=recurrent)

    def advance(
        self,
        embedded: tf.Tensor,
        memory: AttentionMemory,
        state: DecoderState,
        training: bool,
        masks: StackMasks | None = None,
    ) -> DecoderStep:
        """One step from embedded words [B, K, E]."""
        hidden, recurrent = self._step_stack(embedded, state, training, masks)  # [B, K, H]
        found = self.attention.attend(hidden, memory, state.place, training)
        after = DecoderState(recurrent, state.attentional, state.place + 1)
        return DecoderStep(self.combine(hidden), found.weights, found.draw, after)

    def run(
        self, embedded: tf.Tensor, memory: AttentionMemory, state: DecoderState, training: bool
    ) -> Decoded:
        """All steps at once."""
        first = tf.nest.map_structure(lambda part: part[:, 0], state.recurrent)  # [B, H]
        hidden, _ = self.stack(embedded, initial_state=first, training=training)  # [B, T, H]
        found = self.attention.attend(hidden, memory, None, training)
        return Decoded(self.combine(hidden), found.weights, found.draw)

    @property
    def _carries_attention(self) -> bool:
        return False
