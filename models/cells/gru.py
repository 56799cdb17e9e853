"""GRU cells: without a reset gate, and with normalised weights."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from models.cells.cell import Cell, Constants
from models.recurrence import Sequences, gru_recurrence


@keras.saving.register_keras_serializable("seqloom")
class GRUCell(Cell):
    """GRU (Cho et al. 2014), the reset gate after the product; gates in the order z, r, h.

    `z, r = σ(x U + b + h W + d)`, `h~ = tanh(x U + b + r ⊙ (h W + d))`, and the next hidden
    state is `z h + (1 - z) h~`.

    Keras's is used where no weights are normalised.
    """

    gates = 3

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create kernels and the biases b and d, [3H], for inputs [B, F]."""
        super().build(input_shape)
        self.bias = self._add("bias", (3 * self.units,), "zeros")
        self.recurrent_bias = self._add("recurrent_bias", (3 * self.units,), "zeros")

    def input_share(self, inputs: tf.Tensor) -> tf.Tensor:
        """`x U + b`."""
        return self._input_product(inputs) + self._cast(self.bias)  # [..., 3H]

    def constants(self) -> Constants:
        """W and d."""
        return {
            "recurrent_kernel": self._recurrent_kernel(),
            "recurrent_bias": self._cast(self.recurrent_bias),
        }

    def advance(
        self, share: tf.Tensor, read: tf.Tensor, states: Sequence[tf.Tensor], constants: Constants
    ) -> tuple[tf.Tensor, ...]:
        """The hidden state after a step."""
        inner = tf.matmul(read, constants["recurrent_kernel"])  # [B, 3H]
        return (gru_step(share, inner + constants["recurrent_bias"], states[0]),)

    def run(
        self,
        shares: tf.Tensor,
        states: Sequence[tf.Tensor],
        time_mask: tf.Tensor,
        recurrent_mask: tf.Tensor | None,
    ) -> Sequences:
        """All steps; by the fast loop unless the hidden state is dropped from."""
        if recurrent_mask is not None:
            return super().run(shares, states, time_mask, recurrent_mask)
        constants = self.constants()
        return gru_recurrence(
            shares,
            states[0],
            time_mask,
            constants["recurrent_kernel"],
            constants["recurrent_bias"],
        )


@keras.saving.register_keras_serializable("seqloom")
class SimplifiedGRUCell(Cell):
    """GRU without a reset gate; gates in the order z, h.

    `z = σ(x U + h W + b)`, `h~ = tanh(x U + h W + b)`, and the next hidden state is
    `z h + (1 - z) h~`.
    """

    gates = 2

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create kernels and the bias [2H] for inputs [B, F]."""
        super().build(input_shape)
        self.bias = self._add("bias", (2 * self.units,), "zeros")

    def input_share(self, inputs: tf.Tensor) -> tf.Tensor:
        """`x U + b`."""
        return self._input_product(inputs) + self._cast(self.bias)  # [..., 2H]

    def constants(self) -> Constants:
        """W."""
        return {"recurrent_kernel": self._recurrent_kernel()}

    def advance(
        self, share: tf.Tensor, read: tf.Tensor, states: Sequence[tf.Tensor], constants: Constants
    ) -> tuple[tf.Tensor, ...]:
        """The hidden state after a step."""
        gates = share + tf.matmul(read, constants["recurrent_kernel"])  # [B, 2H]
        update, candidate = tf.split(gates, 2, -1)  # [B, H]
        return (mixed(update, candidate, states[0]),)


def gru_step(share: tf.Tensor, inner: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
    """The hidden state [B, H] after a step, the reset gate after the product.

    Args:
        share: The input's part of the gates, [B, 3H], in the order z, r, h.
        inner: The hidden state's part, likewise.
        hidden: Before the step, [B, H].
    """
    of_update, of_reset, of_candidate = tf.split(share, 3, -1)  # [B, H]
    inner_update, inner_reset, inner_candidate = tf.split(inner, 3, -1)  # [B, H]
    reset = tf.sigmoid(of_reset + inner_reset)  # [B, H]
    return mixed(of_update + inner_update, of_candidate + reset * inner_candidate, hidden)


def mixed(update: tf.Tensor, candidate: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
    """`σ(z) h + (1 - σ(z)) tanh(h~)`, [B, H], of gate and candidate before activation."""
    kept = tf.sigmoid(update)  # [B, H]
    return kept * hidden + (1 - kept) * tf.tanh(candidate)
