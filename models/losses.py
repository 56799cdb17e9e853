"""Training losses over the vocabulary: one contract, whatever the vocabulary costs."""

import abc
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.projection import VocabularyProjection


class TokenLosses(NamedTuple):
    """Losses of N words."""

    losses: tf.Tensor  # [N], float32, in nats
    predictions: tf.Tensor | None  # [N], int32: the likeliest words, where the loss knows them


class VocabularyLoss(abc.ABC):
    """Contract of the family: features, labels and the projection give a loss a word."""

    @abc.abstractmethod
    def __call__(
        self,
        features: tf.Tensor,
        labels: tf.Tensor,
        projection: VocabularyProjection,
        seed: tf.Tensor,
    ) -> TokenLosses:
        """Loss of each word.

        Args:
            features: [N, H], compute dtype.
            labels: Int32 [N], ids of the right words.
            projection: From features to V words.
            seed: Int32 [2], of whatever the loss draws; the same seed draws the same.

        Returns:
            Losses float32 [N], and predictions int32 [N] where the loss knows them.
        """


class FullSoftmax(VocabularyLoss):
    """Cross entropy over the whole vocabulary.

    Args:
        label_smoothing: Share e of the probability spread evenly over all words (Szegedy et
            al. 2016, section 7).
    """

    def __init__(self, label_smoothing: float = 0.0):
        self.label_smoothing = label_smoothing

    def __call__(
        self,
        features: tf.Tensor,
        labels: tf.Tensor,
        projection: VocabularyProjection,
        seed: tf.Tensor,
    ) -> TokenLosses:
        """`-(1 - e) log p(label) - e mean(log p)`; the seed is not used."""
        logits = projection(features)  # [N, V], float32
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [N]
        if self.label_smoothing:
            flat = tf.reduce_logsumexp(logits, -1) - tf.reduce_mean(logits, -1)  # [N]
            losses += self.label_smoothing * (flat - losses)
        return TokenLosses(losses, tf.argmax(logits, -1, output_type=tf.int32))


class NoiseContrastiveEstimation(VocabularyLoss):
    """Noise-contrastive estimation by `tf.nn.nce_loss` (Mnih & Teh 2012).

    One set of noise words is drawn, with replacement, for all words of a batch, from the
    unigram distribution raised to a power (Mikolov et al. 2013, section 2.2). The draw is a pure
    function of the seed, unlike TensorFlow's candidate samplers, whose state no checkpoint holds.

    Accidental hits stay: the estimator is derived with them.

    Args:
        unigram_counts: [V], how often each word stands in the training data.
        noise_words: Words k drawn a batch.
        distortion: Power of the counts; 1 is the unigram distribution, 0 the flat one.
    """

    def __init__(self, unigram_counts: np.ndarray, noise_words: int, distortion: float = 0.75):
        # A word never seen counts once: its expected count must not be 0, and only as noise
        # can it learn that it does not come.
        weights = np.maximum(np.asarray(unigram_counts, np.float64), 1.0) ** distortion
        self.probabilities = (weights / weights.sum()).astype(np.float32)  # [V]
        self.cumulative = np.cumsum(weights / weights.sum()).astype(np.float32)  # [V]
        self.noise_words = noise_words

    def __call__(
        self,
        features: tf.Tensor,
        labels: tf.Tensor,
        projection: VocabularyProjection,
        seed: tf.Tensor,
    ) -> TokenLosses:
        """Binary logistic losses of the right word against k noise words."""
        losses = tf.nn.nce_loss(
            weights=tf.cast(projection.kernel, tf.float32),
            biases=tf.cast(projection.bias, tf.float32),
            labels=tf.cast(labels, tf.int64)[:, tf.newaxis],
            inputs=tf.cast(features, tf.float32),
            num_sampled=self.noise_words,
            num_classes=projection.vocabulary_size,
            sampled_values=self._draw(labels, seed),
            remove_accidental_hits=False,
        )  # [N]
        return TokenLosses(losses, None)

    def _draw(self, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Noise words [k] and the expected counts of labels [N, 1] and noise words [k]."""
        uniform = tf.random.stateless_uniform([self.noise_words], seed)  # [k]
        noise = tf.searchsorted(tf.constant(self.cumulative), uniform, side="right")  # [k]
        noise = tf.minimum(noise, len(self.cumulative) - 1)
        expected = tf.constant(self.probabilities * np.float32(self.noise_words))  # [V]
        return (
            tf.cast(noise, tf.int64),
            tf.gather(expected, labels)[:, tf.newaxis],
            tf.gather(expected, noise),
        )
