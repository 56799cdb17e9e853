"""Simple recurrent cell."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from models.cells.cell import Cell, Constants


@keras.saving.register_keras_serializable("seqloom")
class SimpleCell(Cell):
    """`h' = f(x U + h W + b)` (Elman 1990).

    Keras's is used where no weights are normalised.

    Args:
        units: Hidden units.
        activation: f; relu with an identity or orthogonal recurrent kernel keeps gradients
            (Le et al. 2015).
        **kwargs: Of `Cell`.
    """

    gates = 1

    def __init__(self, units: int, activation: Any = "tanh", **kwargs: Any):
        super().__init__(units, **kwargs)
        self.activation = keras.activations.get(activation)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create kernels and the bias [H] for inputs [B, F]."""
        super().build(input_shape)
        self.bias = self._add("bias", (self.units,), "zeros")

    def input_share(self, inputs: tf.Tensor) -> tf.Tensor:
        """`x U + b`."""
        return self._input_product(inputs) + self._cast(self.bias)  # [..., H]

    def constants(self) -> Constants:
        """W."""
        return {"recurrent_kernel": self._recurrent_kernel()}

    def advance(
        self, share: tf.Tensor, read: tf.Tensor, states: Sequence[tf.Tensor], constants: Constants
    ) -> tuple[tf.Tensor, ...]:
        """The hidden state after a step."""
        return (self.activation(share + tf.matmul(read, constants["recurrent_kernel"])),)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
        }
