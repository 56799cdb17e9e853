"""Given targets, scored by what a decoder made of them."""

from typing import NamedTuple

import tensorflow as tf

from models.decoders.contract import Decoded
from models.projection import VocabularyProjection
from models.special_ids import NO_WORDS, PAD_ID


class ForcedOutput(NamedTuple):
    """Outcome of reading given targets."""

    log_probabilities: tf.Tensor  # [B, T], float32: of each target word, 0 at pads
    weights: tf.Tensor  # [B, T, S], float32: the attention when each was predicted


def score_targets(
    decoded: Decoded, labels: tf.Tensor, projection: VocabularyProjection
) -> ForcedOutput:
    """Score the words that should have been predicted.

    Args:
        decoded: Features and attention of the targets read.
        labels: Int32 [B, T], end mark last, padded.
        projection: From features to words; marks that are no words cannot come.

    Returns:
        Log probabilities [B, T] and attention [B, T, S].
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels, projection(decoded.features, excluded=NO_WORDS)
    )  # [B, T]
    return ForcedOutput(
        tf.where(tf.equal(labels, PAD_ID), tf.zeros_like(losses), -losses), decoded.weights
    )
