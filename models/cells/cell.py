"""The contract of our cells."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from models.normalization import weight_normalized
from models.recurrence import Sequences
from models.stepwise import over_rows, run_steps

Constants = Mapping[str, tf.Tensor]


class Cell(keras.layers.Layer, abc.ABC):
    """Contract of the family: one step of a recurrent layer, for `keras.layers.RNN`.

    A step is parted so that a layer can do as much as possible for all steps at once:
    `input_share` is the input's part of the gates, `constants` are tensors that all steps read,
    and `advance` is the rest. `call` is one step whole. The first part of a state is the hidden
    state, and it is the output.

    The kernels hold all gates side by side. Weights are kept in float32 at least and are cast
    to the compute dtype once a sequence.

    Args:
        units: Hidden units H.
        kernel_initializer: Of the input kernel.
        recurrent_initializer: Of the recurrent kernel.
        weight_norm: Keep direction and length of each kernel's columns apart, `w = g v / ‖v‖`
            (Salimans & Kingma 2016). It starts as the kernel that the initializer gives.

    Attributes:
        gates: Columns of a kernel, in units.
    """

    gates: ClassVar[int]

    def __init__(
        self,
        units: int,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        weight_norm: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.weight_norm = weight_norm

    @property
    def state_size(self) -> list[int]:
        """Features of each part of a state."""
        return [self.units]

    @property
    def output_size(self) -> int:
        """Features of the output, and of the hidden state."""
        return self.state_size[0]

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create the kernels for inputs [B, F]; members add what else they have."""
        width = self.gates * self.units
        self.kernel, self.kernel_gain = self._add_kernel(
            "kernel", (input_shape[-1], width), self.kernel_initializer
        )
        self.recurrent_kernel, self.recurrent_gain = self._add_kernel(
            "recurrent_kernel", (self.output_size, width), self.recurrent_initializer
        )

    @abc.abstractmethod
    def input_share(self, inputs: tf.Tensor) -> tf.Tensor:
        """The input's part of the gates, [..., G], of inputs [..., F]."""

    @abc.abstractmethod
    def constants(self) -> Constants:
        """What all steps read, in compute dtype; `recurrent_kernel` [H, G] at least."""

    @abc.abstractmethod
    def advance(
        self, share: tf.Tensor, read: tf.Tensor, states: Sequence[tf.Tensor], constants: Constants
    ) -> tuple[tf.Tensor, ...]:
        """The states after a step.

        Args:
            share: From `input_share`, [B, G].
            read: The hidden state as products read it, [B, H]: with dropout, or `states[0]`.
            states: States before the step.
            constants: From `constants`.
        """

    def call(
        self, inputs: tf.Tensor, states: Sequence[tf.Tensor], training: bool = False
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """One step: inputs [B, F] and states give the output [B, H] and the states after."""
        after = self.advance(self.input_share(inputs), states[0], states, self.constants())
        return after[0], list(after)

    def run(
        self,
        shares: tf.Tensor,
        states: Sequence[tf.Tensor],
        time_mask: tf.Tensor,
        recurrent_mask: tf.Tensor | None,
    ) -> Sequences:
        """All steps.

        Args:
            shares: From `input_share`, [T, B, G].
            states: States before the first step.
            time_mask: [T, B, 1], 1 at real steps and 0 at those that leave the state as it is.
            recurrent_mask: [B, H], by which products read the hidden state, or None.

        Returns:
            Hidden states and last states.
        """
        constants = self.constants()
        return run_steps(
            lambda share, read, states: self.advance(share, read, states, constants),
            shares,
            states,
            time_mask,
            recurrent_mask,
        )

    def get_initial_state(self, batch_size: int | tf.Tensor) -> list[tf.Tensor]:
        """Zeros."""
        return [tf.zeros([batch_size, size], self.compute_dtype) for size in self.state_size]

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "weight_norm": self.weight_norm,
        }

    def _add_kernel(
        self, name: str, shape: tuple[int | None, int], initializer: keras.initializers.Initializer
    ) -> tuple[keras.Variable, keras.Variable | None]:
        """A kernel, or a direction and the lengths of its columns."""
        kernel = self._add(name, shape, initializer)
        if not self.weight_norm:
            return kernel, None

        def lengths(shape: Any, dtype: Any = None) -> tf.Tensor:
            return tf.cast(tf.norm(tf.convert_to_tensor(kernel), axis=0), dtype)  # [G]

        return kernel, self._add(f"{name}_gain", shape[1:], lengths)

    def _add(self, name: str, shape: tuple[int | None, ...], initializer: Any) -> keras.Variable:
        return self.add_weight(shape=shape, initializer=initializer, autocast=False, name=name)

    def _cast(self, weight: keras.Variable) -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(weight), self.compute_dtype)

    def _kernel(self, kernel: keras.Variable, gain: keras.Variable | None) -> tf.Tensor:
        """A kernel as products take it."""
        if gain is None:
            return self._cast(kernel)
        lengths = tf.convert_to_tensor(gain)  # [G]
        normalized = weight_normalized(tf.convert_to_tensor(kernel), lengths)  # [F, G]
        return tf.cast(normalized, self.compute_dtype)

    def _input_product(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., G] of inputs [..., F], by one product."""
        return over_rows(inputs, self._kernel(self.kernel, self.kernel_gain))

    def _recurrent_kernel(self) -> tf.Tensor:
        return self._kernel(self.recurrent_kernel, self.recurrent_gain)  # [H, G]


def open_forget_gates(shape: Sequence[int], dtype: Any = None) -> tf.Tensor:
    """Initializer of an LSTM's biases, [4H], in the order input, forget, candidate, output."""
    return tf.repeat(tf.constant([0.0, 1.0, 0.0, 0.0], dtype), shape[0] // 4)
