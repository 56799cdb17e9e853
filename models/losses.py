"""Training losses over the vocabulary: one contract, whatever the vocabulary costs."""

import abc
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.noise import NOISES, NoiseWords
from models.projection import VocabularyProjection


class TokenLosses(NamedTuple):
    """Losses of N words."""

    losses: tf.Tensor  # [N], float32, in nats
    predictions: tf.Tensor | None  # [N], int32: the likeliest words, where the loss knows them


def perplexity(loss: float) -> float:
    """Words that a model hesitates between.

    It is `exp(J)` of a mean cross entropy J in nats, and `2 ** J` of the same mean in bits: one
    number, since J in bits is J in nats over log 2. All losses here are in nats.

    Args:
        loss: J, in nats.

    Returns:
        The perplexity, at most `exp(700)`, which a double still holds.
    """
    return math.exp(min(loss, 700.0))


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


class SampledLoss(VocabularyLoss):
    """Base of the losses that read k noise words in place of the V words.

    One set of noise words is drawn, with replacement, for all words of a batch. A step reads, and
    has gradients of, only the rows of its labels and noise words.

    Args:
        unigram_counts: [V], how often each word stands in the training data.
        noise_words: Words k drawn a batch.
        distortion: Power of the counts; 1 is the unigram distribution, 0 the flat one.
        noise: A key of `models.noise.NOISES`.
    """

    def __init__(
        self,
        unigram_counts: np.ndarray,
        noise_words: int,
        distortion: float = 0.75,
        noise: str = "unigram",
    ):
        counts = np.asarray(unigram_counts, np.float64)
        self.noise = NoiseWords(NOISES[noise](counts, distortion), noise_words)


class NoiseContrastiveEstimation(SampledLoss):
    """Noise-contrastive estimation by `tf.nn.nce_loss` (Mnih & Teh 2012).

    Accidental hits stay: the estimator is derived with them.
    """

    def __call__(
        self,
        features: tf.Tensor,
        labels: tf.Tensor,
        projection: VocabularyProjection,
        seed: tf.Tensor,
    ) -> TokenLosses:
        """Binary logistic losses of the right word against k noise words."""
        words = self.noise.draw(seed)  # [k]
        losses = tf.nn.nce_loss(
            weights=projection.rows,
            biases=projection.biases,
            labels=tf.cast(labels, tf.int64)[:, tf.newaxis],
            inputs=tf.cast(features, tf.float32),
            num_sampled=self.noise.count,
            num_classes=projection.vocabulary_size,
            sampled_values=(
                words,
                self.noise.expected(labels)[:, tf.newaxis],  # [N, 1]
                self.noise.expected(words),  # [k]
            ),
            remove_accidental_hits=False,
        )  # [N]
        return TokenLosses(losses, None)


class SampledSoftmax(SampledLoss):
    """Softmax over the right word and k noise words by `tf.nn.sampled_softmax_loss`.

    Which word of a set, the right one and those drawn, is the right one (Jean et al. 2015, section
    3.1)? A word w gets into the set by the draw with a chance of `Q(w) = 1 - (1 - P(w)) ** k`, so
    that scores are lowered by `log Q(w)`, the right word's too, and it is in the set once even if
    it was drawn. With k the loss approaches the full softmax.

    Not for XLA, which knows neither the search for accidental hits nor shapes that depend on
    data.
    """

    def __call__(
        self,
        features: tf.Tensor,
        labels: tf.Tensor,
        projection: VocabularyProjection,
        seed: tf.Tensor,
    ) -> TokenLosses:
        """Cross entropy over the right word and the noise words that are not it."""
        # Once each: of a word drawn twice TensorFlow removes one accidental hit and leaves one.
        words, _ = tf.unique(self.noise.draw(seed))  # [u], u <= k
        losses = tf.nn.sampled_softmax_loss(
            weights=projection.rows,
            biases=projection.biases,
            labels=tf.cast(labels, tf.int64)[:, tf.newaxis],
            inputs=tf.cast(features, tf.float32),
            num_sampled=tf.size(words),
            num_classes=projection.vocabulary_size,
            sampled_values=(
                words,
                self.noise.chance(labels)[:, tf.newaxis],  # [N, 1]
                self.noise.chance(words),  # [u]
            ),
            remove_accidental_hits=True,
        )  # [N]
        return TokenLosses(losses, None)


SAMPLED_LOSSES: dict[str, type[SampledLoss]] = {
    "sampled": SampledSoftmax,
    "nce": NoiseContrastiveEstimation,
}
