"""A window of words in NumPy, one position at a time."""

import numpy as np


def run_window(inputs, lengths, weights, order, before=None):
    """Features [B, T, H] of real positions, zero elsewhere, and the last words [B, n - 2, E].

    Args:
        inputs: [B, T, E].
        lengths: Real positions of each row.
        weights: Kernel and bias of each layer, the lowest first.
        order: n.
        before: The words before the first, [B, n - 2, E]; zeros if None.
    """
    rows, steps, size = inputs.shape
    outputs, last = np.zeros((rows, steps, len(weights[-1]))), []
    for row, length in enumerate(lengths):
        words = list(np.zeros((order - 2, size)) if before is None else before[row])
        for step in range(length):
            words.append(inputs[row, step])
            features = np.concatenate(words[len(words) - (order - 1) :])
            for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
                features = np.tanh(features @ kernel + bias)
            outputs[row, step] = features
        last.append(words[len(words) - (order - 2) :])
    return outputs, np.array(last).reshape(rows, order - 2, size)
