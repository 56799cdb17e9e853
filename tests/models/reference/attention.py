"""Attention in NumPy, a row at a time, over real positions only."""

import numpy as np


def dot(query, memory, weights):
    """`sᵀh`, [Q, S] of queries [Q, D] and a memory [S, D]."""
    return query @ memory.T


def general(query, memory, weights):
    """`sᵀWh`; the one weight maps memory to query features, [M, D]."""
    (kernel,) = weights
    return np.einsum("qd,md,sm->qs", query, kernel, memory)


def additive(query, memory, weights):
    """`vᵀ tanh(Ws + Uh + b)`."""
    query_kernel, memory_kernel, bias, vector = weights
    scores = np.zeros((len(query), len(memory)))
    for q, s in np.ndindex(scores.shape):
        scores[q, s] = np.tanh(query[q] @ query_kernel + memory[s] @ memory_kernel + bias) @ vector
    return scores


SCORES = {"dot": dot, "general": general, "additive": additive}


def softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def attend(score, query, memory, lengths, weights):
    """Context [B, Q, M] and weights [B, Q, S] of queries [B, Q, D] over memories [B, S, M].

    Pads get no weight; a row of pads alone has a context of zero.
    """
    context = np.zeros((*query.shape[:2], memory.shape[2]))
    attention = np.zeros((*query.shape[:2], memory.shape[1]))
    for row, length in enumerate(lengths):
        if length:
            real = memory[row, :length]
            attention[row, :, :length] = softmax(SCORES[score](query[row], real, weights))
            context[row] = attention[row, :, :length] @ real
    return context, attention
