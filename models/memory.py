"""The Neural Turing Machine: a recurrent cell with a memory that it addresses itself.

Graves, Wayne & Danihelka 2014, "Neural Turing Machines".
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.addressing import HeadSizes, address, head_parameters, write
from models.cells.cell import open_forget_gates
from models.cells.lstm import lstm_step
from models.errors import UserError

# Memories start as one small constant (Collier & Beel 2018, section 4).
FIRST_MEMORY = 1e-6
# The logarithm of the odds that heads start at the first row and not at another.
_FIRST_ROW = 4.0


class NTMState(NamedTuple):
    """State of the cell."""

    hidden: tf.Tensor  # [B, H], compute dtype: what the controller gave
    carry: tf.Tensor  # [B, H], compute dtype: an LSTM controller's own memory
    memory: tf.Tensor  # [B, N, M], compute dtype
    reads: tf.Tensor  # [B, R, M], compute dtype: what each head read
    weights: tf.Tensor  # [B, R + W, N], compute dtype: where heads are, those that read first


class Controller(NamedTuple):
    """A kind of controller.

    `step(shares, carry) -> hidden, carry` takes the product with the kernel, [B, gates * H].
    """

    gates: int
    recurrent: bool  # whether it reads its last hidden state
    step: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
    first_bias: Any  # an initializer


def _dense_step(shares: tf.Tensor, carry: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.tanh(shares), carry


CONTROLLERS = {
    "lstm": Controller(4, True, lstm_step, open_forget_gates),
    "dense": Controller(1, False, _dense_step, "zeros"),
}


@keras.saving.register_keras_serializable("seqloom")
class NTMCell(keras.layers.Layer):
    """Neural Turing Machine for `keras.layers.RNN`.

    A step: the controller reads the input and what the heads read last; from its hidden state
    come the parameters of all heads; each head finds its place in the memory as it was; heads
    that write erase and add; heads that read read the memory as it is then; the output is
    `W [h; reads] + b`.

    The first hidden state is zero and the first memory a small constant. The first reads and
    the first places of the heads are learned; heads start close to the first row.

    Places are found, and the memory is read and written, in float32 whatever the compute dtype.

    Args:
        units: Hidden units of the controller, and features of the output, H.
        memory_rows: Rows of the memory, N.
        memory_features: Features of a row, M.
        read_heads: Heads that read, R.
        write_heads: Heads that write, W.
        shift_range: How far a head moves in a step at most, s, either way.
        controller: A key of `CONTROLLERS`; "dense" has no state of its own.
        kernel_initializer: Of all kernels.
        recurrent_initializer: Of that part of the controller's kernel that the last hidden
            state meets; without use if the controller is "dense".

    Example:
        >>> layer = keras.layers.RNN(NTMCell(100), return_sequences=True)
        >>> layer(tf.zeros([2, 7, 9])).shape
        TensorShape([2, 7, 100])
    """

    def __init__(
        self,
        units: int,
        memory_rows: int = 128,
        memory_features: int = 20,
        read_heads: int = 1,
        write_heads: int = 1,
        shift_range: int = 1,
        controller: str = "lstm",
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        _check(memory_rows, read_heads, write_heads, shift_range, controller)
        self.units = units
        self.memory_rows = memory_rows
        self.memory_features = memory_features
        self.read_heads = read_heads
        self.write_heads = write_heads
        self.shift_range = shift_range
        self.controller = controller
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)

    @property
    def head_sizes(self) -> HeadSizes:
        """How many heads there are, and what each is told."""
        return HeadSizes(self.read_heads, self.write_heads, self.memory_features, self.shift_range)

    @property
    def state_size(self) -> list[int | tuple[int, int]]:
        """Shapes of the parts of `NTMState`, without the batch."""
        return [
            self.units,
            self.units,
            (self.memory_rows, self.memory_features),
            (self.read_heads, self.memory_features),
            (self.head_sizes.heads, self.memory_rows),
        ]

    @property
    def output_size(self) -> int:
        """Features of the output."""
        return self.units

    def build(self, input_shape: Any) -> None:
        """Create the weights for inputs [B, F]."""
        kind = CONTROLLERS[self.controller]
        read = self.read_heads * self.memory_features
        given = input_shape[-1] + read
        self.kernel = self.add_weight(
            shape=(given + (self.units if kind.recurrent else 0), kind.gates * self.units),
            initializer=lambda shape, dtype: self._first_kernel(given, shape, dtype),
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(kind.gates * self.units,), initializer=kind.first_bias, name="bias"
        )
        told = sum(self.head_sizes.numbers)
        self.head_kernel, self.head_bias = self._affine("head", self.units, told)
        seen = self.units + read
        self.output_kernel, self.output_bias = self._affine("output", seen, self.units)
        # In half precision, too, the first places are computed in that of the weights.
        self.first_reads = self.add_weight(
            shape=(self.read_heads, self.memory_features),
            initializer="zeros",
            autocast=False,
            name="first_reads",
        )
        self.first_weights = self.add_weight(
            shape=(self.head_sizes.heads, self.memory_rows),
            initializer=_first_places,
            autocast=False,
            name="first_weights",
        )

    def get_initial_state(self, batch_size: int | tf.Tensor) -> NTMState:
        """The state before the first step.

        Args:
            batch_size: Rows, B.

        Returns:
            The state, of a cell that has been built.
        """
        zeros = tf.zeros([batch_size, self.units], self.compute_dtype)  # [B, H]
        memory = tf.fill(
            [batch_size, self.memory_rows, self.memory_features],
            tf.cast(FIRST_MEMORY, self.compute_dtype),
        )  # [B, N, M]
        reads = tf.tanh(tf.convert_to_tensor(self.first_reads))  # [R, M]
        weights = tf.nn.softmax(tf.convert_to_tensor(self.first_weights))  # [K, N]
        return NTMState(
            zeros,
            zeros,
            memory,
            self._for_each_row(reads, batch_size),
            self._for_each_row(weights, batch_size),
        )

    def call(
        self, inputs: tf.Tensor, states: Any, training: bool = False
    ) -> tuple[tf.Tensor, NTMState]:
        """One step.

        Args:
            inputs: [B, F].
            states: The parts of `NTMState`, in a sequence of any kind.
            training: Nothing differs.

        Returns:
            Output [B, H] and the state after the step.
        """
        state = NTMState(*states)
        hidden, carry = self._control(inputs, state)  # [B, H]
        found = tf.matmul(hidden, self.head_kernel) + self.head_bias  # [B, P]
        precise = tf.float64 if self.compute_dtype == "float64" else tf.float32
        parameters = head_parameters(tf.cast(found, precise), self.head_sizes)
        memory = tf.cast(state.memory, precise)  # [B, N, M]
        weights = address(parameters, memory, tf.cast(state.weights, precise))  # [B, K, N]
        memory = write(
            memory, weights[:, self.read_heads :], parameters.erasures, parameters.additions
        )  # [B, N, M]
        reads = tf.matmul(weights[:, : self.read_heads], memory)  # [B, R, M]
        memory, reads, weights = (
            tf.cast(part, self.compute_dtype) for part in (memory, reads, weights)
        )
        seen = tf.concat([hidden, self._flat(reads)], 1)  # [B, H + R * M]
        output = tf.matmul(seen, self.output_kernel) + self.output_bias  # [B, H]
        return output, NTMState(hidden, carry, memory, reads, weights)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {
            **super().get_config(),
            "units": self.units,
            "memory_rows": self.memory_rows,
            "memory_features": self.memory_features,
            "read_heads": self.read_heads,
            "write_heads": self.write_heads,
            "shift_range": self.shift_range,
            "controller": self.controller,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
        }

    def _control(self, inputs: tf.Tensor, state: NTMState) -> tuple[tf.Tensor, tf.Tensor]:
        kind = CONTROLLERS[self.controller]
        seen = [inputs, self._flat(state.reads), *([state.hidden] if kind.recurrent else [])]
        shares = tf.matmul(tf.concat(seen, 1), self.kernel) + self.bias  # [B, gates * H]
        return kind.step(shares, state.carry)

    def _first_kernel(self, given: int, shape: tuple[int, int], dtype: Any) -> tf.Tensor:
        """The controller's kernel: a part for what it is given, a part for its hidden state."""
        rows, columns = shape
        parts = [self.kernel_initializer.clone()((given, columns), dtype)]
        if rows > given:
            parts.append(self.recurrent_initializer.clone()((rows - given, columns), dtype))
        return tf.concat(parts, 0)

    def _affine(self, name: str, seen: int, given: int) -> tuple[Any, Any]:
        """A kernel and a bias."""
        kernel = self.add_weight(
            shape=(seen, given), initializer=self.kernel_initializer.clone(), name=f"{name}_kernel"
        )
        return kernel, self.add_weight(shape=(given,), initializer="zeros", name=f"{name}_bias")

    def _flat(self, reads: tf.Tensor) -> tf.Tensor:
        return tf.reshape(reads, [-1, self.read_heads * self.memory_features])  # [B, R * M]

    def _for_each_row(self, part: tf.Tensor, batch_size: int | tf.Tensor) -> tf.Tensor:
        part = tf.cast(part, self.compute_dtype)
        return tf.broadcast_to(part, [batch_size, *part.shape])


def _first_places(shape: tuple[int, int], dtype: Any) -> tf.Tensor:
    """Logits that put heads close to the first row.

    Heads that start at all rows alike would stay there: rows that are alike get the same
    gradients, and nothing else tells one from another.
    """
    heads, rows = shape
    first = _FIRST_ROW + math.log(max(1, rows - 1))
    return tf.cast(tf.tile(first * tf.one_hot([0], rows), [heads, 1]), dtype)  # [K, N]


def _check(rows: int, read_heads: int, write_heads: int, shift_range: int, controller: str) -> None:
    if controller not in CONTROLLERS:
        raise UserError(
            f"model.cell_options.controller: got {controller!r}, expected one of "
            f"{', '.join(CONTROLLERS)}"
        )
    if min(read_heads, write_heads) < 1:
        raise UserError(
            f"model.cell_options: got read_heads {read_heads} and write_heads {write_heads}, "
            f"expected 1 of each or more"
        )
    if not 0 <= 2 * shift_range < rows:
        raise UserError(
            f"model.cell_options.shift_range: got {shift_range}, expected 0 to {(rows - 1) // 2} "
            f"with memory_rows {rows}, so that no shift goes round the memory; make shift_range "
            f"smaller or memory_rows larger"
        )
