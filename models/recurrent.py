"""Recurrent layers, one or many deep, in one or two directions."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.initializers import uniform
from models.keras_recurrent import GRU, LSTM


class LSTMState(NamedTuple):
    """State of one LSTM layer."""

    hidden: tf.Tensor  # [..., H], compute dtype
    memory: tf.Tensor  # [..., H], compute dtype


class GRUState(NamedTuple):
    """State of one GRU layer."""

    hidden: tf.Tensor  # [..., H], compute dtype


CellState = LSTMState | GRUState
StackState = tuple[CellState, ...]  # one entry a layer, the lowest first

CELLS: dict[str, tuple[type[keras.layers.RNN], type]] = {
    "lstm": (LSTM, LSTMState),
    "gru": (GRU, GRUState),
}


class FinalStates(NamedTuple):
    """Final states of a stack after a whole sequence."""

    forward: StackState
    backward: StackState | None  # None in a stack of one direction


@keras.saving.register_keras_serializable("seqloom")
class RecurrentStack(keras.layers.Layer):
    """Recurrent layers upon each other.

    LSTM (Hochreiter & Schmidhuber 1997) or GRU (Cho et al. 2014); bidirectional as in Schuster &
    Paliwal 1997, with residual connections as in Wu et al. 2016, section 3.1.

    The layers are Keras's own with the settings that its fused cuDNN path asks for: default
    activations, biases, no dropout inside the recurrence, masks padded on the right.

    Args:
        cell: A key of `CELLS`.
        units: Hidden units a direction.
        layers: Depth.
        bidirectional: Read both ways and concatenate the two hidden states of a step.
        residual: Add a layer's input to its output, from the second layer on.
        dropout: Share of features dropped between layers while training.
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self,
        cell: str = "lstm",
        units: int = 256,
        layers: int = 1,
        bidirectional: bool = False,
        residual: bool = False,
        dropout: float = 0.0,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.cell_name = cell
        self.units = units
        self.bidirectional = bidirectional
        self.residual = residual
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self.layers = [self._make_layer(index) for index in range(layers)]
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.supports_masking = True

    @property
    def output_size(self) -> int:
        """Features of a step's output."""
        return self.units * (2 if self.bidirectional else 1)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Build the layers for inputs [B, T, F]."""
        shape = tuple(input_shape)
        for layer in self.layers:
            layer.build(shape)
            shape = (*shape[:-1], self.output_size)
        self.dropout.build(shape)

    def call(
        self,
        inputs: tf.Tensor,
        mask: tf.Tensor | None = None,
        initial_state: StackState | None = None,
        training: bool = False,
    ) -> tuple[tf.Tensor, FinalStates]:
        """Run over whole sequences.

        Args:
            inputs: [B, T, F].
            mask: Bool [B, T], true at real steps, which come first; None if all are.
            initial_state: States [B, H] a layer; zero if None. One direction only.
            training: Whether dropout is on.

        Returns:
            Outputs [B, T, output_size] and the states after each row's last real step.
        """
        forward, backward = [], []
        outputs = inputs
        for index, layer in enumerate(self.layers):
            below = self.dropout(outputs, training=training) if index else outputs
            given = None if initial_state is None else list(initial_state[index])
            outputs, *flat = layer(below, mask=mask, initial_state=given, training=training)
            outputs = self._join(index, below, outputs)  # [B, T, output_size]
            size = len(flat) // (2 if self.bidirectional else 1)
            forward.append(self._state_type(*flat[:size]))
            if self.bidirectional:
                backward.append(self._state_type(*flat[size:]))
        return outputs, FinalStates(tuple(forward), tuple(backward) or None)

    def compute_mask(self, *_: Any, **__: Any) -> None:
        """No mask travels on: who reads the outputs is given one."""

    def step(
        self, inputs: tf.Tensor, state: StackState, training: bool = False
    ) -> tuple[tf.Tensor, StackState]:
        """Run one step with the same weights. One direction only.

        Args:
            inputs: [N, F].
            state: States [N, H] a layer.
            training: Whether dropout is on.

        Returns:
            Outputs [N, H] and the states after the step.
        """
        after = []
        outputs = inputs
        for index, layer in enumerate(self.layers):
            below = self.dropout(outputs, training=training) if index else outputs
            outputs, flat = layer.cell(below, list(state[index]), training=training)
            outputs = self._join(index, below, outputs)  # [N, H]
            after.append(self._state_type(*flat))
        return outputs, tuple(after)

    def zero_state(self, batch: tf.Tensor) -> StackState:
        """States of zeros, [batch, H] a layer."""
        zeros = tf.zeros([batch, self.units], self.compute_dtype)  # [B, H]
        parts = len(self._state_type._fields)
        return tuple(self._state_type(*[zeros] * parts) for _ in self.layers)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal stack."""
        return {
            **super().get_config(),
            "cell": self.cell_name,
            "units": self.units,
            "layers": len(self.layers),
            "bidirectional": self.bidirectional,
            "residual": self.residual,
            "dropout": self.dropout_rate,
            "initializer_range": self.initializer_range,
        }

    @property
    def _state_type(self) -> Any:
        return CELLS[self.cell_name][1]

    def _make_layer(self, index: int) -> keras.layers.Layer:
        layer = CELLS[self.cell_name][0](
            self.units,
            return_sequences=True,
            return_state=True,
            kernel_initializer=uniform(self.initializer_range),
            recurrent_initializer=uniform(self.initializer_range),
            dtype=self.dtype_policy,
            name=f"{self.cell_name}_{index}",
        )
        if not self.bidirectional:
            return layer
        return keras.layers.Bidirectional(
            layer, merge_mode="concat", dtype=self.dtype_policy, name=f"bidirectional_{index}"
        )

    def _join(self, index: int, below: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return outputs + below if self.residual and index else outputs
