"""Show, Attend and Tell, and captions from the mean, in NumPy: one word after another.

Weights are a dict of lists: `embedding`, `stack`, `attention`, `gate`, `enter`, `bridge` (kernel
and bias of each part of each layer's state), `combine`.
"""

import numpy as np

from tests.models.reference.attention import attend
from tests.models.reference.recurrent import sigmoid, stack_step


def caption_features(kind, cell, tokens, grid, weights, score="additive"):
    """Features [B, T, H] and attention [B, T, R * C] of known captions."""
    memory = grid.reshape(len(grid), -1, grid.shape[-1])
    mean = memory.mean(1)
    parts = [np.tanh(mean @ kernel + bias) for kernel, bias in _pairs(weights["bridge"])]
    states = [tuple(parts)]
    if kind == "first_input":
        kernel, bias = weights["enter"]
        _, states = stack_step(cell, mean @ kernel + bias, states, weights["stack"])
    features, attention = [], []
    for words in tokens.T:
        embedded = weights["embedding"][0][words]
        context, alpha = _look(kind, score, states[-1][0], memory, weights)
        read = [embedded] if kind == "first_input" else [embedded, context]
        hidden, states = stack_step(cell, np.concatenate(read, -1), states, weights["stack"])
        told = [hidden] if kind == "first_input" else [hidden, context, embedded]
        features.append(np.tanh(np.concatenate(told, -1) @ weights["combine"][0]))
        attention.append(alpha)
    return np.stack(features, 1), np.stack(attention, 1)


def doubly_stochastic(attention, lengths):
    """The sum over rows and cells of (1 - what all words looked at it)²."""
    total = 0.0
    for weights, length in zip(attention, lengths, strict=True):
        total += ((1.0 - weights[:length].sum(0)) ** 2).sum()
    return total


def _look(kind, score, hidden, memory, weights):
    if kind != "gated":
        alpha = np.full(memory.shape[:2], 1.0 / memory.shape[1])
        return memory.mean(1), alpha
    lengths = [memory.shape[1]] * len(memory)
    found = attend(score, hidden[:, np.newaxis], memory, lengths, weights["attention"])
    context, alpha = (part[:, 0] for part in found)
    kernel, bias = weights["gate"]
    return sigmoid(hidden @ kernel + bias) * context, alpha


def _pairs(flat):
    return zip(flat[::2], flat[1::2], strict=True)
