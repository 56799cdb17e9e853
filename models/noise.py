"""Noise words of the sampled losses: their distributions, and a draw without state."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from models.errors import UserError
from models.special_ids import END_ID


class NoiseWords:
    """Draws k words, with replacement.

    The draw is a pure function of the seed, unlike TensorFlow's candidate samplers, whose state
    no checkpoint holds.

    Args:
        probabilities: Float64 [V], of each word to be drawn.
        count: Words k of a draw.
    """

    def __init__(self, probabilities: np.ndarray, count: int):
        self.probabilities = probabilities
        # Doubles: a word of a large vocabulary may have less than what float32 tells apart near 1.
        self.cumulative = np.cumsum(probabilities)  # [V]
        self.count = count

    def draw(self, seed: tf.Tensor) -> tf.Tensor:
        """Words of a seed.

        Args:
            seed: Int32 [2].

        Returns:
            Int64 [k].
        """
        flat = tf.random.stateless_uniform([self.count], seed, dtype=tf.float64)  # [k]
        words = tf.searchsorted(tf.constant(self.cumulative), flat, "right", tf.int64)  # [k]
        return tf.minimum(words, len(self.cumulative) - 1)

    def expected(self, words: tf.Tensor) -> tf.Tensor:
        """How often each of some words comes in a draw on average, float32 of their shape."""
        means = self.probabilities * self.count  # [V]
        return tf.gather(tf.constant(means, tf.float32), words)

    def chance(self, words: tf.Tensor) -> tf.Tensor:
        """How likely each of some words comes in a draw at all, float32 of their shape."""
        chances = -np.expm1(self.count * np.log1p(-self.probabilities))  # [V], 1 - (1 - P) ** k
        return tf.gather(tf.constant(chances, tf.float32), words)


def unigram_noise(counts: np.ndarray, distortion: float) -> np.ndarray:
    """Unigram counts to a power (Mikolov et al. 2013, section 2.2).

    A word never seen counts once: its expected count must not be 0, and only as noise can it
    learn that it does not come.

    Args:
        counts: Float64 [V].
        distortion: The power.
    """
    weights = np.maximum(counts, 1.0) ** distortion  # [V]
    return weights / weights.sum()


def log_uniform_noise(counts: np.ndarray, _: float) -> np.ndarray:
    """`P(w) = log((w + 2) / (w + 1)) / log(V + 1)`: Zipf's law over ids, the first the oftenest.

    Args:
        counts: Float64 [V]; they must fall, the marks at the head aside.
        _: Counts are not raised to a power.

    Raises:
        UserError: If they do not.
    """
    rising = np.flatnonzero(np.diff(counts[END_ID + 1 :]) > 0)
    if len(rising):
        word = END_ID + 2 + int(rising[0])
        raise UserError(
            f"train.loss.noise: log_uniform needs a vocabulary sorted by frequency, but id {word} "
            f"came {counts[word]:,.0f} times and id {word - 1} before it {counts[word - 1]:,.0f} "
            f"times; set train.loss.noise to unigram, which reads the counts themselves"
        )
    logs = np.log(np.arange(1, len(counts) + 2, dtype=np.float64))  # [V + 1]
    return np.diff(logs) / logs[-1]


NOISES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "unigram": unigram_noise,
    "log_uniform": log_uniform_noise,
}
