"""LSTM and GRU in NumPy, one row and one step at a time, over real positions only.

States are tuples: (h, c) of an LSTM, (h,) of a GRU. Weights of a layer and direction are a
list (input kernel [F, G * H], recurrent kernel [H, G * H], bias), as Keras orders gates.
"""

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def lstm_step(x, state, weights):
    """`c = f c + i g`, `h = o tanh(c)`; gates in the order i, f, g, o."""
    hidden, memory = state
    kernel, recurrent, bias = weights
    i, f, g, o = np.split(x @ kernel + hidden @ recurrent + bias, 4, -1)
    memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(memory), memory


def gru_step(x, state, weights):
    """`h' = (1 - z) h~ + z h` with the reset gate after the product; gates z, r, h."""
    (hidden,) = state
    kernel, recurrent, bias = weights
    x_z, x_r, x_h = np.split(x @ kernel + bias[0], 3, -1)
    h_z, h_r, h_h = np.split(hidden @ recurrent + bias[1], 3, -1)
    update, reset = sigmoid(x_z + h_z), sigmoid(x_r + h_r)
    candidate = np.tanh(x_h + reset * h_h)
    return ((1.0 - update) * candidate + update * hidden,)


STEPS = {"lstm": (lstm_step, 2), "gru": (gru_step, 1)}


def stack_step(cell, x, states, weights, residual=False):
    """One step of all layers: the topmost output and the states after it."""
    step = STEPS[cell][0]
    after, output = [], x
    for index, state in enumerate(states):
        state = step(output, state, weights[3 * index : 3 * index + 3])
        after.append(state)
        output = state[0] + output if residual and index else state[0]
    return output, after


def run_row(cell, inputs, state, weights):
    """Outputs [T, H] of one layer over inputs [T, F] and the state after the last step."""
    outputs = []
    for x in inputs:
        state = STEPS[cell][0](x, state, weights)
        outputs.append(state[0])
    return np.array(outputs), state


def run_layer(cell, inputs, lengths, weights, backwards=False, initial=None):
    """One direction of one layer: outputs [B, T, H], zero at pads, and final states."""
    units = weights[1].shape[0]
    outputs = np.zeros((*inputs.shape[:2], units))
    finals = []
    for row, length in enumerate(lengths):
        state = tuple(np.zeros(units) for _ in range(STEPS[cell][1]))
        if initial is not None:
            state = tuple(part[row] for part in initial)
        order = slice(None, None, -1) if backwards else slice(None)
        if length:
            found, state = run_row(cell, inputs[row, :length][order], state, weights)
            outputs[row, :length] = found[order]
        finals.append(state)
    return outputs, tuple(np.array(part) for part in zip(*finals, strict=True))


def run_stack(cell, inputs, lengths, weights, bidirectional=False, residual=False, initial=None):
    """All layers over inputs [B, T, F].

    Returns outputs [B, T, H or 2H], zero at pads, and the final states of each layer, forward
    and backward.
    """
    forward, backward, outputs = [], [], inputs
    each = 6 if bidirectional else 3
    for index in range(len(weights) // each):
        own = weights[each * index : each * (index + 1)]
        first = None if initial is None else initial[index]
        found, final = run_layer(cell, outputs, lengths, own[:3], initial=first)
        forward.append(final)
        if bidirectional:
            back, final = run_layer(cell, outputs, lengths, own[3:], backwards=True)
            backward.append(final)
            found = np.concatenate([found, back], -1)
        outputs = found + outputs if residual and index else found
    return outputs, forward, backward
