"""Self-paced learning: what is easy now is learned now, the rest when it has become easy.

An example counts where its loss is below a threshold, and the threshold grows with the epochs
until all count (Kumar et al. 2010, section 4). The loss itself decides what is easy, so that it
changes as the model learns.
"""

from typing import Literal, NamedTuple

import tensorflow as tf


class Paced(NamedTuple):
    """How much the examples of a batch count."""

    weights: tf.Tensor  # [B], float32, in [0, 1]
    examples: tf.Tensor  # [], float32: examples that have a word
    kept: tf.Tensor  # [], float32: the sum of their weights


class SelfPaced:
    """How much each example counts.

    With λ the threshold and L the example's mean loss a word, `hard` weighs an example 1 where
    L < λ and 0 elsewhere: what minimises `Σ v L - λ Σ v` over v (Kumar et al. 2010, eq. 3);
    `soft` weighs it `max(0, 1 - L / λ)`, which minimises `Σ v L + λ Σ (v²/2 - v)` (Jiang et al.
    2014, linear soft weighting).

    Args:
        kind: `hard` or `soft`.
        threshold: λ of the first epoch, in nats a word.
        growth: Factor of λ from one epoch to the next.
    """

    def __init__(
        self, kind: Literal["hard", "soft"] = "hard", threshold: float = 6.0, growth: float = 1.3
    ):
        self.kind = kind
        self.threshold = threshold
        self.growth = growth

    def threshold_at(self, epoch: int | tf.Tensor) -> tf.Tensor:
        """λ of an epoch from 0, float32 []; finite however many there were."""
        grown = self.threshold * tf.pow(self.growth, tf.cast(epoch, tf.float32))
        return tf.minimum(grown, tf.float32.max)

    def weights(self, losses: tf.Tensor, threshold: tf.Tensor) -> tf.Tensor:
        """Weights of examples; no gradient flows through them.

        Args:
            losses: Mean losses a word, float32 [B].
            threshold: λ, float32 [].

        Returns:
            Float32 [B], in [0, 1].
        """
        losses = tf.stop_gradient(losses)
        if self.kind == "hard":
            return tf.cast(losses < threshold, tf.float32)
        return tf.nn.relu(1.0 - losses / threshold)

    def of_words(
        self,
        losses: tf.Tensor,
        real: tf.Tensor,
        row_of: tf.Tensor,
        rows: tf.Tensor,
        epoch: tf.Tensor,
    ) -> Paced:
        """Weights of the examples that words belong to.

        Args:
            losses: Losses of N words, float32 [N].
            real: 1 at real words and 0 at pads, float32 [N].
            row_of: Each word's example, int32 [N].
            rows: Examples B, int32 [].
            epoch: From 0, int64 [].

        Returns:
            Weights of all B examples, and their sums over those that have a word.
        """
        sums = tf.math.unsorted_segment_sum(losses * real, row_of, rows)  # [B]
        words = tf.math.unsorted_segment_sum(real, row_of, rows)  # [B]
        weights = self.weights(sums / tf.maximum(words, 1.0), self.threshold_at(epoch))  # [B]
        present = tf.cast(words > 0.0, tf.float32)  # [B]
        return Paced(weights, tf.reduce_sum(present), tf.reduce_sum(weights * present))
