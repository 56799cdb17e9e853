"""Attention before the recurrent layers, with a gate on the context."""

from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import Attended, AttentionMemory
from models.decoders.bahdanau import BahdanauDecoder
from models.decoders.contract import DecoderState
from models.initializers import uniform


@keras.saving.register_keras_serializable("seqloom")
class GatedDecoder(BahdanauDecoder):
    """The decoder of Show, Attend and Tell (Xu et al. 2015, sections 3.1.2 and 4.2.1).

    `c = β attend(s)` with `β = σ(w s + b)`, a number a word, so that a word may be said without
    looking; then `s' = f([y; c], s)` and features `tanh(W[s'; c; y])`, where the paper adds the
    three without the tanh (equation 7).
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.gate = keras.layers.Dense(
            1,
            activation="sigmoid",
            kernel_initializer=uniform(self.initializer_range),
            dtype=self.dtype_policy,
            name="gate",
        )

    def build(self, *_: Any) -> None:
        """Build all parts."""
        super().build()
        self.gate.build((None, None, self.features_size))

    def look(
        self, query: tf.Tensor, memory: AttentionMemory, state: DecoderState, training: bool
    ) -> Attended:
        """The context scaled by the gate; weights are those before it."""
        found = super().look(query, memory, state, training)
        return found._replace(context=found.context * self.gate(query))  # [B, K, M]
