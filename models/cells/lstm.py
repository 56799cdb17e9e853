"""LSTM cells: with peepholes, with a projected hidden state, with normalised weights."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from models.cells.cell import Cell, Constants, open_forget_gates
from models.recurrence import Sequences, lstm_recurrence


@keras.saving.register_keras_serializable("seqloom")
class LSTMCell(Cell):
    """LSTM (Hochreiter & Schmidhuber 1997; Gers et al. 2000), gates in the order i, f, g, o.

    `c' = σ(f) c + σ(i) tanh(g)`, `h' = σ(o) tanh(c')`, of gates `x U + h W + b`.

    Peepholes (Gers & Schmidhuber 2000) add `p_i c` to i, `p_f c` to f and `p_o c'` to o. A
    projection (Sak et al. 2014) makes the hidden state `V (σ(o) tanh(c')) + b_V`.

    Keras's is used where the cell is none of these.

    Args:
        units: Features of the memory, and of the hidden state unless it is projected.
        peepholes: Whether gates see the memory.
        projection_units: Features P of the hidden state; not projected if None.
        **kwargs: Of `Cell`.
    """

    gates = 4

    def __init__(
        self,
        units: int,
        peepholes: bool = False,
        projection_units: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(units, **kwargs)
        self.peepholes = peepholes
        self.projection_units = projection_units

    @property
    def state_size(self) -> list[int]:
        """Features of hidden state and memory."""
        return [self.projection_units or self.units, self.units]

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create kernels, bias [4H], peepholes [3H] and projection [H, P], [P]."""
        super().build(input_shape)
        self.bias = self._add("bias", (4 * self.units,), open_forget_gates)
        if self.peepholes:
            self.peephole_weights = self._add(
                "peephole_weights", (3 * self.units,), self.kernel_initializer.clone()
            )
        if self.projection_units:
            self.projection_kernel = self._add(
                "projection_kernel",
                (self.units, self.projection_units),
                self.kernel_initializer.clone(),
            )
            self.projection_bias = self._add("projection_bias", (self.projection_units,), "zeros")

    def input_share(self, inputs: tf.Tensor) -> tf.Tensor:
        """`x U + b`."""
        return self._input_product(inputs) + self._cast(self.bias)  # [..., 4H]

    def constants(self) -> Constants:
        """W, and of p, V and b_V what there is."""
        found = {"recurrent_kernel": self._recurrent_kernel()}  # [H or P, 4H]
        if self.peepholes:
            found["peepholes"] = self._cast(self.peephole_weights)  # [3H]
        if self.projection_units:
            found["projection_kernel"] = self._cast(self.projection_kernel)  # [H, P]
            found["projection_bias"] = self._cast(self.projection_bias)  # [P]
        return found

    def advance(
        self, share: tf.Tensor, read: tf.Tensor, states: Sequence[tf.Tensor], constants: Constants
    ) -> tuple[tf.Tensor, ...]:
        """Hidden state and memory after a step."""
        gates = share + tf.matmul(read, constants["recurrent_kernel"])  # [B, 4H]
        hidden, memory = lstm_step(gates, states[1], constants.get("peepholes"))  # [B, H]
        if self.projection_units:
            hidden = tf.matmul(hidden, constants["projection_kernel"])  # [B, P]
            hidden += constants["projection_bias"]
        return hidden, memory

    def run(
        self,
        shares: tf.Tensor,
        states: Sequence[tf.Tensor],
        time_mask: tf.Tensor,
        recurrent_mask: tf.Tensor | None,
    ) -> Sequences:
        """All steps; by the fast loop where it knows the cell."""
        if self.peepholes or self.projection_units or recurrent_mask is not None:
            return super().run(shares, states, time_mask, recurrent_mask)
        return lstm_recurrence(shares, states[0], states[1], time_mask, self._recurrent_kernel())

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {
            **super().get_config(),
            "peepholes": self.peepholes,
            "projection_units": self.projection_units,
        }


def lstm_step(
    gates: tf.Tensor, memory: tf.Tensor, peepholes: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Hidden state and memory [B, H] after a step.

    Args:
        gates: Before activation, [B, 4H], in the order i, f, g, o.
        memory: Before the step, [B, H].
        peepholes: [3H], in the order i, f, o; or None.
    """
    in_, forget, candidate, out = tf.split(gates, 4, -1)  # [B, H]
    if peepholes is None:
        memory = tf.sigmoid(forget) * memory + tf.sigmoid(in_) * tf.tanh(candidate)  # [B, H]
        return tf.sigmoid(out) * tf.tanh(memory), memory
    to_in, to_forget, to_out = tf.split(peepholes, 3)  # [H]
    in_ += to_in * memory
    forget += to_forget * memory
    memory = tf.sigmoid(forget) * memory + tf.sigmoid(in_) * tf.tanh(candidate)  # [B, H]
    out += to_out * memory
    return tf.sigmoid(out) * tf.tanh(memory), memory
