"""Losses over a vocabulary in NumPy."""

import numpy as np


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def project(features, kernel, bias):
    """Logits [..., V] of features [..., H] and a kernel [V, H]."""
    return features @ kernel.T + bias


def cross_entropy(logits, labels, smoothing=0.0):
    """`-Σ_w q(w) log p(w)`, q being the label smoothed with the flat distribution; [N]."""
    vocabulary = logits.shape[-1]
    wanted = np.full(logits.shape, smoothing / vocabulary)
    wanted[np.arange(len(labels)), labels] += 1.0 - smoothing
    return -(wanted * log_softmax(logits)).sum(-1)


def noise_distribution(counts, distortion):
    """Unigram counts raised to a power; a word never seen counts once."""
    powers = np.maximum(np.asarray(counts, np.float64), 1.0) ** distortion
    return powers / powers.sum()


def noise_contrastive(features, labels, kernel, bias, noise, probabilities):
    """Noise-contrastive losses [N] with given noise words [k], shared by all rows.

    A word comes from the data with probability `σ(s(w) - log(k P(w)))`, s being its logit; the
    label should, the noise words should not.
    """

    def log_odds(words):
        expected = np.log(len(noise) * probabilities[words])
        return project(features, kernel, bias)[:, words] - expected  # [N, words]

    true = log_odds(labels)[np.arange(len(labels)), np.arange(len(labels))]  # [N]
    return np.logaddexp(0.0, -true) + np.logaddexp(0.0, log_odds(noise)).sum(-1)


def log_uniform_distribution(vocabulary):
    """Zipf's law over ids: `P(w) = (log(w + 2) - log(w + 1)) / log(V + 1)`."""
    ids = np.arange(vocabulary, dtype=np.float64)
    return (np.log(ids + 2.0) - np.log(ids + 1.0)) / np.log(vocabulary + 1.0)


def sampled_softmax(features, labels, kernel, bias, noise, probabilities):
    """Losses [N] of the softmax over the set of the label and the noise words [k].

    Scores are lowered by the log of the chance that k draws hold a word, the label's too.
    """
    logits = project(features, kernel, bias)  # [N, V]
    logits = logits - np.log(1.0 - (1.0 - probabilities) ** len(noise))
    losses = []
    for row, label in zip(logits, labels, strict=True):
        words = {int(label), *(int(word) for word in noise)}
        losses.append(np.log(sum(np.exp(row[word]) for word in words)) - row[label])
    return np.array(losses)
