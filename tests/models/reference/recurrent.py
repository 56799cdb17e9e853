"""Recurrent cells in NumPy, one row and one step at a time, over real positions only.

States are tuples, the hidden state first: (h, c) of an LSTM of any kind, (h,) of all others.
Weights of a layer and direction are a list in the order that the layer keeps them, the input
kernel [F, G * H] first; gates stand as Keras orders them. `read` is the hidden state as products
read it, with dropout; the state itself if None.
"""

from typing import NamedTuple

import numpy as np

ACTIVATIONS = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0.0),
}
sigmoid = ACTIVATIONS["sigmoid"]


def simple_step(x, state, weights, read=None, activation="tanh"):
    """`h' = f(x U + h W + b)`."""
    kernel, recurrent, bias = weights
    read = state[0] if read is None else read
    return (ACTIVATIONS[activation](x @ kernel + read @ recurrent + bias),)


def lstm_step(x, state, weights, read=None):
    """`c = f c + i g`, `h = o tanh(c)`; gates in the order i, f, g, o."""
    hidden, memory = state
    kernel, recurrent, bias = weights
    read = hidden if read is None else read
    i, f, g, o = np.split(x @ kernel + read @ recurrent + bias, 4, -1)
    memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(memory), memory


def gru_step(x, state, weights, read=None):
    """`h' = (1 - z) h~ + z h` with the reset gate after the product; gates z, r, h."""
    (hidden,) = state
    kernel, recurrent, bias = weights
    read = hidden if read is None else read
    x_z, x_r, x_h = np.split(x @ kernel + bias[0], 3, -1)
    h_z, h_r, h_h = np.split(read @ recurrent + bias[1], 3, -1)
    update, reset = sigmoid(x_z + h_z), sigmoid(x_r + h_r)
    candidate = np.tanh(x_h + reset * h_h)
    return ((1.0 - update) * candidate + update * hidden,)


def gru_reset_before_step(x, state, weights, read=None):
    """`h~ = tanh(W x + U (r h) + b)`; gates z, r, h."""
    (hidden,) = state
    read = hidden if read is None else read
    (w_z, w_r, w_h), (u_z, u_r, u_h), (b_z, b_r, b_h) = (np.split(w, 3, -1) for w in weights)
    update = sigmoid(x @ w_z + read @ u_z + b_z)
    reset = sigmoid(x @ w_r + read @ u_r + b_r)
    candidate = np.tanh(x @ w_h + (reset * read) @ u_h + b_h)
    return ((1.0 - update) * candidate + update * hidden,)


def gru_simplified_step(x, state, weights, read=None):
    """`h~ = tanh(W x + U h + b)`, no reset gate; gates z, h."""
    (hidden,) = state
    read = hidden if read is None else read
    (w_z, w_h), (u_z, u_h), (b_z, b_h) = (np.split(w, 2, -1) for w in weights)
    update = sigmoid(x @ w_z + read @ u_z + b_z)
    candidate = np.tanh(x @ w_h + read @ u_h + b_h)
    return ((1.0 - update) * candidate + update * hidden,)


def peephole_lstm_step(x, state, weights, read=None):
    """Gates i and f see `c_{t-1}`, gate o sees `c_t` (Gers & Schmidhuber 2000)."""
    hidden, memory = state
    kernel, recurrent, bias, peepholes = weights
    read = hidden if read is None else read
    p_i, p_f, p_o = np.split(peepholes, 3)
    i, f, g, o = np.split(x @ kernel + read @ recurrent + bias, 4, -1)
    after = sigmoid(f + p_f * memory) * memory + sigmoid(i + p_i * memory) * np.tanh(g)
    return sigmoid(o + p_o * after) * np.tanh(after), after


def projected_lstm_step(x, state, weights, read=None):
    """`a = V (o tanh(c)) + b_V` is the recurrent state (Sak et al. 2014)."""
    *own, projection, shift = weights
    step = peephole_lstm_step if len(own) == 4 else lstm_step
    hidden, memory = step(x, state, own, read)
    return hidden @ projection + shift, memory


def normalized(values, gain, shift):
    """`gain (a - μ) / sqrt(σ² + 1e-5) + shift` over features."""
    mean, variance = values.mean(-1, keepdims=True), values.var(-1, keepdims=True)
    return gain * (values - mean) / np.sqrt(variance + 1e-5) + shift


def layer_norm_rnn_step(x, state, weights, read=None, activation="tanh"):
    """`h' = f(LN(x U + h W))` (Ba et al. 2016, equation 4)."""
    kernel, recurrent, shift, gain = weights
    read = state[0] if read is None else read
    return (ACTIVATIONS[activation](normalized(x @ kernel + read @ recurrent, gain, shift)),)


def layer_norm_lstm_step(x, state, weights, read=None):
    """Gates `LN(x U) + LN(h W)`, `h = o tanh(LN(c))`."""
    hidden, memory = state
    kernel, recurrent, x_gain, x_shift, h_gain, h_shift, c_gain, c_shift = weights
    read = hidden if read is None else read
    gates = normalized(x @ kernel, x_gain, x_shift) + normalized(read @ recurrent, h_gain, h_shift)
    i, f, g, o = np.split(gates, 4, -1)
    memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(normalized(memory, c_gain, c_shift)), memory


def layer_norm_gru_step(x, state, weights, read=None):
    """`z, r = σ(LN(x U) + LN(h W))` as one, `h~ = tanh(LN(x U_h) + r LN(h W_h))`."""
    (hidden,) = state
    units = hidden.shape[-1]
    kernel, recurrent, *norms = weights
    read = hidden if read is None else read
    sides = []
    for product, gain, shift in ((x @ kernel, *norms[:2]), (read @ recurrent, *norms[2:])):
        parts = [slice(None, 2 * units), slice(2 * units, None)]
        sides.append([normalized(product[..., p], gain[p], shift[p]) for p in parts])
    (x_gates, x_h), (h_gates, h_h) = sides
    update, reset = np.split(sigmoid(x_gates + h_gates), 2, -1)
    candidate = np.tanh(x_h + reset * h_h)
    return ((1.0 - update) * candidate + update * hidden,)


def with_weight_norm(step):
    """The same step with `w = g v / ‖v‖` of the columns of both kernels."""

    def normalized_step(x, state, weights, read=None, **options):
        kernel, kernel_gain, recurrent, recurrent_gain, *others = weights
        if len(others) == 2:  # a GRU's two biases, which Keras's keeps as one
            others = [np.stack(others)]
        kernel = kernel_gain * kernel / np.sqrt((kernel**2).sum(0))
        recurrent = recurrent_gain * recurrent / np.sqrt((recurrent**2).sum(0))
        return step(x, state, [kernel, recurrent, *others], read, **options)

    return normalized_step


class Cell(NamedTuple):
    step: object
    parts: int  # of a state
    weights: int  # of a layer and direction


STEPS = {
    "simple_rnn": Cell(simple_step, 1, 3),
    "lstm": Cell(lstm_step, 2, 3),
    "gru": Cell(gru_step, 1, 3),
    "gru_reset_before": Cell(gru_reset_before_step, 1, 3),
    "gru_simplified": Cell(gru_simplified_step, 1, 3),
    "peephole_lstm": Cell(peephole_lstm_step, 2, 4),
    "projected_lstm": Cell(projected_lstm_step, 2, 5),
    "peephole_projected_lstm": Cell(projected_lstm_step, 2, 6),
    "layer_norm_rnn": Cell(layer_norm_rnn_step, 1, 4),
    "layer_norm_lstm": Cell(layer_norm_lstm_step, 2, 8),
    "layer_norm_gru": Cell(layer_norm_gru_step, 1, 6),
    "weight_norm_rnn": Cell(with_weight_norm(simple_step), 1, 5),
    "weight_norm_lstm": Cell(with_weight_norm(lstm_step), 2, 5),
    "weight_norm_gru": Cell(with_weight_norm(gru_step), 1, 6),
}


def part_sizes(cell, units, projection=None):
    """Features of each part of a state; a projection is half as wide as the units by default."""
    hidden = (projection or max(1, units // 2)) if "projected" in cell else units
    return [hidden, units][: STEPS[cell].parts]


def stack_step(cell, x, states, weights, residual=False):
    """One step of all layers: the topmost output and the states after it."""
    step, _, each = STEPS[cell]
    after, output = [], x
    for index, state in enumerate(states):
        state = step(output, state, weights[each * index : each * (index + 1)])
        after.append(state)
        output = state[0] + output if residual and index else state[0]
    return output, after


def run_row(cell, inputs, state, weights, dropped=None, options=None):
    """Outputs [T, H] of one layer over inputs [T, F] and the state after the last step.

    `dropped` is what inputs [F] and hidden state [H] are multiplied by at every step.
    """
    outputs = []
    for x in inputs:
        read = None
        if dropped is not None:
            x, read = x * dropped[0], state[0] * dropped[1]
        state = STEPS[cell].step(x, state, weights, read, **(options or {}))
        outputs.append(state[0])
    return np.array(outputs), state


def run_layer(
    cell, inputs, lengths, weights, backwards=False, initial=None, dropped=None, options=None
):
    """One direction of one layer: outputs [B, T, H], zero at pads, and final states.

    `dropped` is a pair of arrays, [B, F] and [B, H].
    """
    sizes = sizes_of(cell, weights)
    outputs = np.zeros((*inputs.shape[:2], sizes[0]))
    finals = []
    for row, length in enumerate(lengths):
        state = tuple(np.zeros(size) for size in sizes)
        if initial is not None:
            state = tuple(part[row] for part in initial)
        order = slice(None, None, -1) if backwards else slice(None)
        if length:
            masks = None if dropped is None else [mask[row] for mask in dropped]
            found, state = run_row(
                cell, inputs[row, :length][order], state, weights, masks, options
            )
            outputs[row, :length] = found[order]
        finals.append(state)
    return outputs, tuple(np.array(part) for part in zip(*finals, strict=True))


def sizes_of(cell, weights):
    """Features of each part of a state, read off the weights."""
    recurrent = weights[2] if "weight_norm" in cell else weights[1]
    return [recurrent.shape[0], weights[0].shape[1] // 4][: STEPS[cell].parts]


def run_stack(
    cell,
    inputs,
    lengths,
    weights,
    bidirectional=False,
    residual=False,
    initial=None,
    merge="concat",
    options=None,
):
    """All layers over inputs [B, T, F].

    Returns outputs [B, T, H or 2H], zero at pads, and the final states of each layer, forward
    and backward.
    """
    forward, backward, outputs = [], [], inputs
    one = STEPS[cell].weights
    each = 2 * one if bidirectional else one
    for index in range(len(weights) // each):
        own = weights[each * index : each * (index + 1)]
        first = None if initial is None else initial[index]
        found, final = run_layer(cell, outputs, lengths, own[:one], initial=first, options=options)
        forward.append(final)
        if bidirectional:
            back, final = run_layer(
                cell, outputs, lengths, own[one:], backwards=True, options=options
            )
            backward.append(final)
            found = found + back if merge == "sum" else np.concatenate([found, back], -1)
        outputs = found + outputs if residual and index else found
    return outputs, forward, backward
