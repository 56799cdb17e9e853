"""Spellings, poolings and the models upon them, one row at a time."""

import numpy as np

from tests.models.reference.attention import pool
from tests.models.reference.recurrent import run_stack


def convolve(embedded, length, weights):
    """`max_t tanh(W [e_{t-k}; …; e_{t+k}] + b)` over the first `length` of rows [C, E]."""
    kernel, bias = weights  # [K, E, F], [F]
    window = len(kernel)
    before = (window - 1) // 2
    row = np.zeros((length + window - 1, embedded.shape[1]))
    row[before : before + length] = embedded[:length]
    answers = [
        np.tanh(sum(row[start + k] @ kernel[k] for k in range(window)) + bias)
        for start in range(length)
    ]
    return np.max(answers, 0) if answers else np.full(bias.shape, -1.0)


def ends(cell, embedded, length, weights):
    """Final hidden states of both directions over the first `length` of rows [C, E]."""
    _, forward, backward = run_stack(cell, embedded[np.newaxis], [length], weights, True)
    return np.concatenate([forward[-1][0][0], backward[-1][0][0]])


def summarize(kind, states, length, last, weights=()):
    """A vector of states [S, M], and the attention to them [S] or None."""
    if kind == "attention":
        return pool(states, length, weights)
    if not length:
        return np.zeros_like(last if kind == "last" else states[0]), None
    real = states[:length]
    return {"last": last, "mean": real.mean(0), "max": real.max(0)}[kind], None


def hierarchical(cell, documents, weights):
    """Vectors of documents of sentences of embedded words, with both attentions.

    Args:
        cell: Of both levels, one layer in both directions.
        documents: Lists of arrays [W, E].
        weights: By `words`, `word_pooling`, `sentences`, `sentence_pooling`.
    """
    outcome = []
    for sentences in documents:
        vectors, attentions = [], []
        for words in sentences:
            states, *_ = run_stack(cell, words[np.newaxis], [len(words)], weights["words"], True)
            vector, attention = pool(states[0], len(words), weights["word_pooling"])
            vectors.append(vector)
            attentions.append(attention)
        rows = np.array(vectors)[np.newaxis]
        states, *_ = run_stack(cell, rows, [len(vectors)], weights["sentences"], True)
        document, shares = pool(states[0], len(vectors), weights["sentence_pooling"])
        outcome.append((document, attentions, shares))
    return outcome
