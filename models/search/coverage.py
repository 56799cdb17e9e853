"""Coverage: how much attention each source position has had."""

from typing import Any, NamedTuple

import tensorflow as tf

from models.search.hypotheses import SearchOptions

# Attention that a position counts as having had at least: hard and local attention leave some
# with none, whose logarithm would let no translation win.
LEAST_COVERAGE = 1e-6


class Covered(NamedTuple):
    """A decoder's state, and the attention so far, for searches that ask for it."""

    state: Any  # the decoder's, [B, K, ...]
    coverage: tf.Tensor  # [B, K, S], float32: sums of attention; 1 at pads


def uncovered(state: Any, mask: tf.Tensor) -> Covered:
    """The first state of a search.

    Args:
        state: The decoder's first state, with one hypothesis a sentence.
        mask: Bool [B, S], true at real source positions.
    """
    return Covered(state, tf.cast(~mask, tf.float32)[:, tf.newaxis])  # [B, 1, S]


def coverage_score(state: Any, options: SearchOptions) -> tf.Tensor | float:
    """What coverage adds to the score of hypotheses that end in this state.

    `beta * sum_i log(min(sum_j p_ij, 1))` over source positions i and target words j, end marks
    included in both (Wu et al. 2016, section 7). It is never above 0.

    Args:
        state: `Covered`, if the options ask for a coverage penalty.
        options: With beta.

    Returns:
        Float32 [B, K], or 0 where none is asked for.
    """
    if not options.coverage_penalty:
        return 0.0
    covered = tf.clip_by_value(state.coverage, LEAST_COVERAGE, 1.0)  # [B, K, S]
    return options.coverage_penalty * tf.reduce_sum(tf.math.log(covered), -1)
