"""The Neural Turing Machine in NumPy: one row of the batch, one step and one head at a time.

Graves et al. 2014, equations 2 to 9. States are (hidden, carry, memory, reads, weights) of one
row, heads that read before those that write.
"""

from typing import NamedTuple

import numpy as np

from tests.models.reference.recurrent import sigmoid

FIRST_MEMORY = 1e-6


class Sizes(NamedTuple):
    rows: int
    features: int
    read_heads: int
    write_heads: int
    shift_range: int
    controller: str

    @property
    def heads(self):
        return self.read_heads + self.write_heads


class Weights(NamedTuple):
    """In the order in which the cell creates them."""

    kernel: np.ndarray
    bias: np.ndarray
    head_kernel: np.ndarray
    head_bias: np.ndarray
    output_kernel: np.ndarray
    output_bias: np.ndarray
    first_reads: np.ndarray
    first_weights: np.ndarray


def softmax(x):
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def softplus(x):
    return np.log1p(np.exp(x))


def cosine(u, v):
    return u @ v / (np.sqrt(u @ u) * np.sqrt(v @ v))


def address(memory, before, key, strength, gate, shifts, sharpness):
    """Weights [N] of one head."""
    rows, reach = len(memory), len(shifts) // 2
    by_content = softmax(strength * np.array([cosine(key, row) for row in memory]))
    gated = gate * by_content + (1.0 - gate) * before
    shifted = np.zeros(rows)
    for i in range(rows):
        for distance in range(-reach, reach + 1):
            shifted[i] += gated[(i - distance) % rows] * shifts[distance + reach]
    powers = shifted**sharpness
    return powers / powers.sum()


def control(x, state, weights, sizes):
    """Hidden state and carry after the step."""
    hidden, carry, _, reads, _ = state
    seen = [x, reads.ravel(), *([hidden] if sizes.controller == "lstm" else [])]
    found = np.concatenate(seen) @ weights.kernel + weights.bias
    if sizes.controller == "dense":
        return np.tanh(found), carry
    i, f, g, o = np.split(found, 4)
    carry = sigmoid(f) * carry + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(carry), carry


def head_parameters(hidden, weights, sizes):
    """A tuple (key, strength, gate, shifts, sharpness) a head, and (erase, add) one that writes.

    Numbers lie by part first and by head then: all keys, all strengths, and so on.
    """
    numbers = list(hidden @ weights.head_kernel + weights.head_bias)

    def take(heads, count):
        taken = [np.array(numbers[head * count : (head + 1) * count]) for head in range(heads)]
        del numbers[: heads * count]
        return taken

    keys = take(sizes.heads, sizes.features)
    strengths, gates = take(sizes.heads, 1), take(sizes.heads, 1)
    shifts = take(sizes.heads, 2 * sizes.shift_range + 1)
    sharpness = take(sizes.heads, 1)
    erasures = take(sizes.write_heads, sizes.features)
    additions = take(sizes.write_heads, sizes.features)
    assert not numbers
    places = [
        (np.tanh(k), softplus(b), sigmoid(g), softmax(s), 1.0 + softplus(y))
        for k, b, g, s, y in zip(keys, strengths, gates, shifts, sharpness, strict=True)
    ]
    written = [(sigmoid(e), np.tanh(a)) for e, a in zip(erasures, additions, strict=True)]
    return places, written


def write(memory, places, written):
    """All heads erase, then all add."""
    memory = memory.copy()
    for place, (erase, _) in zip(places, written, strict=True):
        memory = memory * (1.0 - np.outer(place, erase))
    for place, (_, add) in zip(places, written, strict=True):
        memory = memory + np.outer(place, add)
    return memory


def ntm_step(x, state, weights, sizes):
    """Output and state after one step of one row."""
    hidden, carry = control(x, state, weights, sizes)
    _, _, memory, _, before = state
    parameters, written = head_parameters(hidden, weights, sizes)
    places = np.array(
        [address(memory, old, *each) for old, each in zip(before, parameters, strict=True)]
    )
    memory = write(memory, places[sizes.read_heads :], written)
    reads = np.array([place @ memory for place in places[: sizes.read_heads]])
    output = np.concatenate([hidden, reads.ravel()]) @ weights.output_kernel + weights.output_bias
    return output, (hidden, carry, memory, reads, places)


def first_state(weights, sizes):
    units = weights.head_kernel.shape[0]
    return (
        np.zeros(units),
        np.zeros(units),
        np.full((sizes.rows, sizes.features), FIRST_MEMORY),
        np.tanh(weights.first_reads),
        np.array([softmax(logits) for logits in weights.first_weights]),
    )


def run_ntm(inputs, lengths, arrays, sizes):
    """Outputs [B, T, H], zero at pads, and the states after the last real step of each row."""
    weights = Weights(*arrays)
    outputs = np.zeros((*inputs.shape[:2], weights.output_kernel.shape[1]))
    finals = []
    for row, length in enumerate(lengths):
        state = first_state(weights, sizes)
        for position in range(length):
            outputs[row, position], state = ntm_step(inputs[row, position], state, weights, sizes)
        finals.append(state)
    return outputs, [np.array(part) for part in zip(*finals, strict=True)]
