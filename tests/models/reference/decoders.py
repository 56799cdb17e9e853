"""Luong and Bahdanau decoders in NumPy: one word after another, from their equations.

Weights are a dict of lists: `embedding`, `stack`, `attention` and `combine`.
"""

import numpy as np

from tests.models.reference.attention import attend
from tests.models.reference.recurrent import stack_step


def luong(cell, score, tokens, memory, lengths, states, weights, feeding=False, residual=False):
    """`h = f(y, s)`, `c = attend(h)`, features `tanh(W[c; h])`, fed to the next step or not.

    Returns features [B, T, H] and attention [B, T, S].
    """
    (combine,) = weights["combine"]
    fed = np.zeros((len(tokens), combine.shape[1] if feeding else 0))
    features, attention = [], []
    for words in tokens.T:
        embedded = np.concatenate([weights["embedding"][0][words], fed], -1)
        hidden, states = stack_step(cell, embedded, states, weights["stack"], residual)
        context, alpha = attend_once(score, hidden, memory, lengths, weights)
        features.append(np.tanh(np.concatenate([context, hidden], -1) @ combine))
        attention.append(alpha)
        fed = features[-1] if feeding else fed
    return np.stack(features, 1), np.stack(attention, 1)


def bahdanau(cell, score, tokens, memory, lengths, states, weights, residual=False):
    """`c = attend(s)`, `s' = f([y; c], s)`, features `tanh(W[s'; c; y])`."""
    (combine,) = weights["combine"]
    features, attention = [], []
    for words in tokens.T:
        embedded = weights["embedding"][0][words]
        context, alpha = attend_once(score, states[-1][0], memory, lengths, weights)
        inputs = np.concatenate([embedded, context], -1)
        hidden, states = stack_step(cell, inputs, states, weights["stack"], residual)
        features.append(np.tanh(np.concatenate([hidden, context, embedded], -1) @ combine))
        attention.append(alpha)
    return np.stack(features, 1), np.stack(attention, 1)


def attend_once(score, query, memory, lengths, weights):
    """Context [B, M] and weights [B, S] of one query [B, D] a row."""
    found = attend(score, query[:, np.newaxis], memory, lengths, weights["attention"])
    return tuple(part[:, 0] for part in found)
