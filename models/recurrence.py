"""LSTM and GRU over whole sequences on a CPU, with gradients of their own.

TensorFlow differentiates a recurrent loop by adding each step's share of the kernel's gradient
inside the loop. Here the backward loop keeps only the gates' gradients, and the kernel's is one
product over all steps after it: the same numbers, with long products in place of many short
ones. The input's share of the gates is one product before the loop for the same reason.

Time is the first axis. The functions take the place of Keras's loop where there is no GPU, or
cuDNN is refused; the equations are those of `keras.layers.LSTM` (Hochreiter & Schmidhuber 1997,
with the forget gate of Gers et al. 2000) and `keras.layers.GRU(reset_after=True)` (Cho et al.
2014).
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class Sequences(NamedTuple):
    """What a loop over T steps gives."""

    hidden: tf.Tensor  # [T, B, H]
    last: tuple[tf.Tensor, ...]  # the states after the last step, [B, H] each


def lstm_recurrence(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    memory: tf.Tensor,
    mask: tf.Tensor,
    recurrent_kernel: tf.Tensor,
) -> Sequences:
    """LSTM over a sequence.

    Args:
        inputs: The input's share of the gates, bias included, [T, B, 4H] in the order input,
            forget, candidate, output.
        hidden: First hidden state, [B, H].
        memory: First memory, [B, H].
        mask: [T, B, 1], 1 at real steps and 0 at those that leave the state as it is.
        recurrent_kernel: [H, 4H].

    Returns:
        The hidden states, and as `last` the last hidden state and the last memory.
    """

    @tf.custom_gradient
    def recurrence(inputs, hidden, memory, recurrent_kernel):
        hiddens, memories, gates = _lstm_forward(inputs, hidden, memory, mask, recurrent_kernel)

        def gradient(into_hiddens, into_hidden, into_memory):
            before = _shifted(hidden, hiddens)  # [T, B, H]
            into_gates, into_first, into_first_memory = _lstm_backward(
                gates,
                memories,
                _shifted(memory, memories),
                mask,
                recurrent_kernel,
                (into_hiddens, into_hidden, into_memory),
            )
            return (
                into_gates,
                into_first,
                into_first_memory,
                _product_over_steps(before, into_gates),
            )

        return (hiddens, last_of(hiddens, hidden), last_of(memories, memory)), gradient

    hiddens, *last = recurrence(inputs, hidden, memory, recurrent_kernel)
    return Sequences(hiddens, tuple(last))


def gru_recurrence(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    mask: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    recurrent_bias: tf.Tensor,
) -> Sequences:
    """GRU over a sequence, the reset gate after the product.

    Args:
        inputs: The input's share of the gates, bias included, [T, B, 3H] in the order update,
            reset, candidate.
        hidden: First hidden state, [B, H].
        mask: [T, B, 1], 1 at real steps and 0 at those that leave the state as it is.
        recurrent_kernel: [H, 3H].
        recurrent_bias: [3H].

    Returns:
        The hidden states, and as `last` the last of them.
    """

    @tf.custom_gradient
    def recurrence(inputs, hidden, recurrent_kernel, recurrent_bias):
        hiddens, gates = _gru_forward(inputs, hidden, mask, recurrent_kernel, recurrent_bias)

        def gradient(into_hiddens, into_hidden):
            before = _shifted(hidden, hiddens)  # [T, B, H]
            into_inputs, into_inner, into_first = _gru_backward(
                gates, before, mask, recurrent_kernel, (into_hiddens, into_hidden)
            )
            return (
                into_inputs,
                into_first,
                _product_over_steps(before, into_inner),
                tf.reduce_sum(into_inner, [0, 1]),
            )

        return (hiddens, last_of(hiddens, hidden)), gradient

    hiddens, last = recurrence(inputs, hidden, recurrent_kernel, recurrent_bias)
    return Sequences(hiddens, (last,))


def _lstm_forward(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    memory: tf.Tensor,
    mask: tf.Tensor,
    recurrent_kernel: tf.Tensor,
) -> list[tf.Tensor]:
    """Hidden states [T, B, H], memories [T, B, H] and gates after activation [T, B, 4H]."""

    def step(time, hidden, memory):
        share = inputs[time] + tf.matmul(hidden, recurrent_kernel)  # [B, 4H]
        in_, forget, candidate, out = tf.split(share, 4, 1)  # [B, H]
        in_, forget, out = tf.sigmoid(in_), tf.sigmoid(forget), tf.sigmoid(out)
        candidate = tf.tanh(candidate)
        new_memory = forget * memory + in_ * candidate  # [B, H]
        new_hidden = out * tf.tanh(new_memory)  # [B, H]
        real = mask[time]  # [B, 1]
        new_hidden = real * new_hidden + (1 - real) * hidden
        new_memory = real * new_memory + (1 - real) * memory
        gates = tf.concat([in_, forget, candidate, out], 1)  # [B, 4H]
        return (new_hidden, new_memory), (new_hidden, new_memory, gates)

    return _loop(step, (hidden, memory), tf.shape(inputs)[0], kept=3)


def _lstm_backward(
    gates: tf.Tensor,
    memories: tf.Tensor,
    memories_before: tf.Tensor,
    mask: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    into: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gradients into gates before activation [T, B, 4H], first hidden state and memory [B, H]."""
    in_, forget, candidate, out = tf.split(gates, 4, 2)  # [T, B, H]
    squashed = tf.tanh(memories)  # [T, B, H]
    # All that does not depend on the step after is computed for all steps at once.
    from_memory = tf.concat(
        [
            candidate * in_ * (1 - in_),
            memories_before * forget * (1 - forget),
            in_ * (1 - candidate * candidate),
        ],
        2,
    )  # [T, B, 3H]
    from_hidden = squashed * out * (1 - out)  # [T, B, H]
    memory_from_hidden = out * (1 - squashed * squashed)  # [T, B, H]
    transposed = tf.transpose(recurrent_kernel)  # [4H, H]
    into_hiddens = into[0]

    def step(time, into_hidden, into_memory):
        into_hidden += into_hiddens[time]  # [B, H]
        real = mask[time]  # [B, 1]
        hidden = into_hidden * real  # [B, H]
        memory = into_memory * real + hidden * memory_from_hidden[time]  # [B, H]
        into_gates = tf.concat(
            [tf.tile(memory, [1, 3]) * from_memory[time], hidden * from_hidden[time]], 1
        )  # [B, 4H]
        before = tf.matmul(into_gates, transposed) + into_hidden * (1 - real)  # [B, H]
        memory_before = memory * forget[time] + into_memory * (1 - real)  # [B, H]
        return (before, memory_before), (into_gates,)

    (into_gates,), states = _loop_back(step, into[1:], tf.shape(gates)[0], kept=1)
    return into_gates, *states


def _gru_forward(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    mask: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    recurrent_bias: tf.Tensor,
) -> list[tf.Tensor]:
    """Hidden states [T, B, H]; update, reset, candidate and its inner share [T, B, 4H]."""

    def step(time, hidden):
        inner = tf.matmul(hidden, recurrent_kernel) + recurrent_bias  # [B, 3H]
        input_update, input_reset, input_candidate = tf.split(inputs[time], 3, 1)  # [B, H]
        inner_update, inner_reset, inner_candidate = tf.split(inner, 3, 1)  # [B, H]
        update = tf.sigmoid(input_update + inner_update)
        reset = tf.sigmoid(input_reset + inner_reset)
        candidate = tf.tanh(input_candidate + reset * inner_candidate)
        new = update * hidden + (1 - update) * candidate  # [B, H]
        real = mask[time]  # [B, 1]
        new = real * new + (1 - real) * hidden
        return (new,), (new, tf.concat([update, reset, candidate, inner_candidate], 1))

    return _loop(step, (hidden,), tf.shape(inputs)[0], kept=2)


def _gru_backward(
    gates: tf.Tensor,
    hiddens_before: tf.Tensor,
    mask: tf.Tensor,
    recurrent_kernel: tf.Tensor,
    into: tuple[tf.Tensor, tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gradients into the input's and the state's share [T, B, 3H], and the first state [B, H]."""
    update, reset, candidate, inner = tf.split(gates, 4, 2)  # [T, B, H]
    slope = (1 - update) * (1 - candidate * candidate)  # [T, B, H]
    from_hidden = tf.concat(
        [
            (hiddens_before - candidate) * update * (1 - update),
            slope * inner * reset * (1 - reset),
            slope,
        ],
        2,
    )  # [T, B, 3H]
    transposed = tf.transpose(recurrent_kernel)  # [3H, H]
    into_hiddens = into[0]
    ones = tf.ones_like(reset)
    to_inner = tf.concat([ones, ones, reset], 2)  # [T, B, 3H]

    def step(time, into_hidden):
        into_hidden += into_hiddens[time]  # [B, H]
        real = mask[time]  # [B, 1]
        hidden = into_hidden * real  # [B, H]
        into_inputs = tf.tile(hidden, [1, 3]) * from_hidden[time]  # [B, 3H]
        before = tf.matmul(into_inputs * to_inner[time], transposed)  # [B, H]
        before += hidden * update[time] + into_hidden * (1 - real)
        return (before,), (into_inputs,)

    (into_inputs,), (first,) = _loop_back(step, into[1:], tf.shape(gates)[0], kept=1)
    return into_inputs, into_inputs * to_inner, first


def _loop(step: Callable, states: tuple, steps: tf.Tensor, kept: int) -> list[tf.Tensor]:
    """Run `step(time, *states) -> states, kept` over ascending time; what was kept, stacked."""
    return _run(step, states, steps, kept, backwards=False)[0]


def _loop_back(
    step: Callable, states: tuple, steps: tf.Tensor, kept: int
) -> tuple[list[tf.Tensor], tuple[tf.Tensor, ...]]:
    """Run over descending time; what was kept, in ascending time, and the states at the end."""
    return _run(step, states, steps, kept, backwards=True)


def _run(
    step: Callable, states: tuple, steps: tf.Tensor, kept: int, backwards: bool
) -> tuple[list[tf.Tensor], tuple[tf.Tensor, ...]]:
    dtype = states[0].dtype
    arrays = tuple(tf.TensorArray(dtype, steps) for _ in range(kept))

    def advance(count, states, arrays):
        time = steps - 1 - count if backwards else count
        states, values = step(time, *states)
        arrays = tuple(
            array.write(time, value) for array, value in zip(arrays, values, strict=True)
        )
        return count + 1, states, arrays

    _, states, arrays = tf.while_loop(
        lambda count, *_: count < steps,
        advance,
        (tf.constant(0), tuple(states), arrays),
        maximum_iterations=steps,
        parallel_iterations=1,
    )
    return [array.stack() for array in arrays], states


def _shifted(first: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The values one step before each of [T, B, H], starting with the first state [B, H]."""
    return tf.concat([first[tf.newaxis], values[:-1]], 0)


def last_of(values: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
    """The value [B, H] after the last step of [T, B, H]; the first state if there is none."""
    return tf.concat([first[tf.newaxis], values], 0)[-1]


def _product_over_steps(before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """`Σ_t before_tᵀ after_t`, [H, G], of [T, B, H] and [T, B, G] as one product."""
    return tf.matmul(
        tf.reshape(before, [-1, before.shape[-1]]),
        tf.reshape(after, [-1, after.shape[-1]]),
        transpose_a=True,
    )
