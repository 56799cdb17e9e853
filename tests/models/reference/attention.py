"""Attention in NumPy, a row at a time, over real positions only."""

import numpy as np


def dot(query, memory, weights):
    """`sᵀh`, [Q, S] of queries [Q, D] and a memory [S, D]."""
    return query @ memory.T


def scaled_dot(query, memory, weights):
    """`sᵀh / √d`."""
    return query @ memory.T / np.sqrt(query.shape[1])


def general(query, memory, weights):
    """`sᵀWh`; the one weight maps memory to query features, [M, D]."""
    (kernel,) = weights
    return np.einsum("qd,md,sm->qs", query, kernel, memory)


def concat(query, memory, weights):
    """`vᵀ tanh(W[s; h])`."""
    kernel, vector = weights
    scores = np.zeros((len(query), len(memory)))
    for q, s in np.ndindex(scores.shape):
        scores[q, s] = np.tanh(np.concatenate([query[q], memory[s]]) @ kernel) @ vector
    return scores


def additive(query, memory, weights):
    """`vᵀ tanh(Ws + Uh + b)`."""
    query_kernel, memory_kernel, bias, vector = weights
    scores = np.zeros((len(query), len(memory)))
    for q, s in np.ndindex(scores.shape):
        scores[q, s] = np.tanh(query[q] @ query_kernel + memory[s] @ memory_kernel + bias) @ vector
    return scores


SCORES = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "concat": concat,
    "additive": additive,
}


def softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def soft(scores, query, place, weights, window):
    """All positions: weights [Q, S] of scores [Q, S]."""
    return softmax(scores)


def hard(scores, query, place, weights, window):
    """One at the likeliest position."""
    return np.eye(scores.shape[1])[scores.argmax(-1)]


def local_monotonic(scores, query, place, weights, window):
    """Positions near the query's own place, or the last one where that is past the end."""
    found = np.zeros_like(scores)
    for q, step in enumerate(place):
        center = min(step, scores.shape[1] - 1)
        near = slice(max(0, center - window), center + window + 1)
        found[q, near] = softmax(scores[q, near])
    return found


def local_predictive(scores, query, place, weights, window):
    """Positions near a predicted one, and a Gaussian with half the window as deviation."""
    kernel, vector = weights
    found = np.zeros_like(scores)
    positions = np.arange(scores.shape[1])
    for q, state in enumerate(query):
        center = scores.shape[1] / (1.0 + np.exp(-np.tanh(state @ kernel) @ vector))
        (near,) = np.nonzero(np.abs(positions - center) <= window)
        gaussian = np.exp(-((near - center) ** 2) / (2.0 * (window / 2.0) ** 2))
        found[q, near] = softmax(scores[q, near]) * gaussian
    return found


# And the weights that each has of its own, which come before those of the score.
KINDS = {
    "soft": (soft, 0),
    "hard": (hard, 0),
    "local_monotonic": (local_monotonic, 0),
    "local_predictive": (local_predictive, 2),
}


def attend(score, query, memory, lengths, weights, kind="soft", place=None, window=10, heads=1):
    """Context [B, Q, M] and weights [B, Q, S] of queries [B, Q, D] over memories [B, S, M].

    Pads get no weight; a row of pads alone has a context of zero. Places [B, Q] are those of
    the queries among the words.
    """
    context = np.zeros((*query.shape[:2], memory.shape[2]))
    attention = np.zeros((*query.shape[:2], memory.shape[1]))
    for row, length in enumerate(lengths):
        real = memory[row, :length]
        if length and score == "multi_head":
            context[row], attention[row, :, :length] = multi_head(query[row], real, weights, heads)
        elif length:
            weigh, own = KINDS[kind]
            scores = SCORES[score](query[row], real, weights[own:])
            at = np.arange(query.shape[1]) if place is None else place[row]
            attention[row, :, :length] = weigh(scores, query[row], at, weights[:own], window)
            context[row] = attention[row, :, :length] @ real
    return context, attention


def multi_head(query, memory, weights, heads):
    """Context [Q, M] and the heads' mean weights [Q, S] of queries [Q, D] and a memory [S, M]."""
    for_queries, for_keys, for_values, output = weights
    size = for_keys.shape[1] // heads
    contexts, attentions = [], []
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        queries, keys = query @ for_queries[:, own], memory @ for_keys[:, own]
        attentions.append(softmax(queries @ keys.T / np.sqrt(size)))
        contexts.append(attentions[-1] @ (memory @ for_values[:, own]))
    return np.concatenate(contexts, -1) @ output, np.mean(attentions, 0)


def self_attention(inputs, lengths, weights, heads, residual=True, normalize=True, epsilon=1e-5):
    """Every real position over all of its row: outputs [B, S, M], zero at pads."""
    cut = len(weights) - 2 * normalize
    context, _ = attend("multi_head", inputs, inputs, lengths, weights[:cut], heads=heads)
    outputs = context + inputs if residual else context
    if normalize:
        gain, shift = weights[cut:]
        centered = outputs - outputs.mean(-1, keepdims=True)
        outputs = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * gain + shift
    real = np.arange(inputs.shape[1]) < np.array(lengths)[:, np.newaxis]
    return outputs * real[..., np.newaxis]


def pool(memory, length, weights):
    """`α = softmax(u_wᵀ tanh(Wh + b))` over a memory [S, M]: vector [M] and weights [S]."""
    kernel, bias, query = weights
    attention = np.zeros(len(memory))
    if length:
        attention[:length] = softmax(np.tanh(memory[:length] @ kernel + bias) @ query)
    return attention @ memory, attention
