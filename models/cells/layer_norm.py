"""Layer-normalised cells (Ba, Kiros & Hinton 2016; equations of its supplementary material).

LN normalises over the features of one step of one row. Where the paper adds a bias to the
shifts of its normalisations, the two are one here.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from models.cells.cell import Cell, Constants, open_forget_gates
from models.cells.gru import gru_step
from models.cells.simple import SimpleCell
from models.normalization import layer_normalized


@keras.saving.register_keras_serializable("seqloom")
class LayerNormSimpleCell(SimpleCell):
    """`h' = f(LN(x U + h W))` (section 3.1, equation 4).

    Args:
        units: Hidden units.
        activation: f.
        **kwargs: Of `Cell`.
    """

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create kernels, gain and shift [H] for inputs [B, F]; the shift is the bias."""
        super().build(input_shape)
        self.gain = self._add("gain", (self.units,), "ones")

    def input_share(self, inputs: tf.Tensor) -> tf.Tensor:
        """`x U`."""
        return self._input_product(inputs)  # [..., H]

    def constants(self) -> Constants:
        """W, gain and shift."""
        gain, shift = _precise(self.gain, self.bias)
        return {**super().constants(), "gain": gain, "shift": shift}

    def advance(
        self, share: tf.Tensor, read: tf.Tensor, states: Sequence[tf.Tensor], constants: Constants
    ) -> tuple[tf.Tensor, ...]:
        """The hidden state after a step."""
        summed = share + tf.matmul(read, constants["recurrent_kernel"])  # [B, H]
        return (self.activation(layer_normalized(summed, constants["gain"], constants["shift"])),)


class _TwiceNormalizedCell(Cell):
    """What the gated ones share: LN of the input's product and of the hidden state's, apart."""

    first_shift: ClassVar[Any] = "zeros"  # of the input's product

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create kernels, and a gain and a shift [G] of each product, for inputs [B, F]."""
        super().build(input_shape)
        width = (self.gates * self.units,)
        self.input_gain = self._add("input_gain", width, "ones")
        self.input_shift = self._add("input_shift", width, self.first_shift)
        self.inner_gain = self._add("inner_gain", width, "ones")
        self.inner_shift = self._add("inner_shift", width, "zeros")

    def input_share(self, inputs: tf.Tensor) -> tf.Tensor:
        """`LN(x U)`."""
        norm = _precise(self.input_gain, self.input_shift)
        return self._normalized(self._input_product(inputs), *norm)  # [..., G]

    def constants(self) -> Constants:
        """W, and gain and shift of its product."""
        gain, shift = _precise(self.inner_gain, self.inner_shift)
        return {
            "recurrent_kernel": self._recurrent_kernel(),
            "inner_gain": gain,
            "inner_shift": shift,
        }

    def _inner(self, read: tf.Tensor, constants: Constants) -> tf.Tensor:
        """`LN(h W)`, [B, G]."""
        product = tf.matmul(read, constants["recurrent_kernel"])  # [B, G]
        return self._normalized(product, constants["inner_gain"], constants["inner_shift"])

    def _normalized(self, product: tf.Tensor, gain: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
        return layer_normalized(product, gain, shift)


@keras.saving.register_keras_serializable("seqloom")
class LayerNormLSTMCell(_TwiceNormalizedCell):
    """LSTM of gates `LN(x U) + LN(h W)`, and `h' = σ(o) tanh(LN(c'))`; order i, f, g, o."""

    gates = 4
    first_shift = staticmethod(open_forget_gates)

    @property
    def state_size(self) -> list[int]:
        """Features of hidden state and memory."""
        return [self.units, self.units]

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create kernels, and gains and shifts [4H], [4H] and [H], for inputs [B, F]."""
        super().build(input_shape)
        self.memory_gain = self._add("memory_gain", (self.units,), "ones")
        self.memory_shift = self._add("memory_shift", (self.units,), "zeros")

    def constants(self) -> Constants:
        """W, and gains and shifts of its product and of the memory."""
        gain, shift = _precise(self.memory_gain, self.memory_shift)
        return {**super().constants(), "memory_gain": gain, "memory_shift": shift}

    def advance(
        self, share: tf.Tensor, read: tf.Tensor, states: Sequence[tf.Tensor], constants: Constants
    ) -> tuple[tf.Tensor, ...]:
        """Hidden state and memory after a step."""
        gates = share + self._inner(read, constants)  # [B, 4H]
        in_, forget, candidate, out = tf.split(gates, 4, -1)  # [B, H]
        memory = tf.sigmoid(forget) * states[1] + tf.sigmoid(in_) * tf.tanh(candidate)  # [B, H]
        shown = layer_normalized(memory, constants["memory_gain"], constants["memory_shift"])
        return tf.sigmoid(out) * tf.tanh(shown), memory


@keras.saving.register_keras_serializable("seqloom")
class LayerNormGRUCell(_TwiceNormalizedCell):
    """GRU of gates `LN(x U) + LN(h W)` and candidate `LN(x U) + r ⊙ LN(h W)`; order z, r, h.

    z and r are normalised as one, the candidate by itself.
    """

    gates = 3

    def advance(
        self, share: tf.Tensor, read: tf.Tensor, states: Sequence[tf.Tensor], constants: Constants
    ) -> tuple[tf.Tensor, ...]:
        """The hidden state after a step."""
        return (gru_step(share, self._inner(read, constants), states[0]),)

    def _normalized(self, product: tf.Tensor, gain: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
        sizes = [2 * self.units, self.units]
        parts = zip(*(tf.split(each, sizes, -1) for each in (product, gain, shift)), strict=True)
        return tf.concat([layer_normalized(*part) for part in parts], -1)  # [..., 3H]


def _precise(*weights: Any) -> list[tf.Tensor]:
    """Weights as they are kept, in float32 at least."""
    return [tf.convert_to_tensor(weight) for weight in weights]
