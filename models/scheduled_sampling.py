"""Scheduled sampling: a decoder learns to read its own words, not only the right ones.

A decoder that is taught the right words alone meets its own mistakes first when it is used.
Here each word it reads is the right one with probability ε, and its own prediction otherwise; ε
falls with the steps (Bengio et al. 2015).

The mixed words are made first, without dropout and without gradients, and are then read as right
ones are. Where a decoder reads known words all at once, its predictions are those that follow the
right words, from one pass over them (Mihaylova & Martins 2019, section 3); a decoder that steps
makes each word from those it really read, step by step.
"""

from collections.abc import Callable
from typing import Any, Literal

import tensorflow as tf

from models.special_ids import PAD_ID


def linear(since: tf.Tensor, decay_steps: float, decay_rate: float) -> tf.Tensor:
    """`1 - t / decay_steps`."""
    return 1.0 - since / decay_steps


def exponential(since: tf.Tensor, decay_steps: float, decay_rate: float) -> tf.Tensor:
    """`k^t` with `k = decay_rate^(1 / decay_steps)`."""
    return tf.pow(decay_rate, since / decay_steps)


def inverse_sigmoid(since: tf.Tensor, decay_steps: float, decay_rate: float) -> tf.Tensor:
    """`k / (k + exp(t / k))` with `k = decay_steps`; a half at `t = k ln k`."""
    # The same by the logistic function, whose exponential does not overflow.
    return tf.sigmoid(tf.math.log(decay_steps) - since / decay_steps)


DECAYS: dict[str, Callable[[tf.Tensor, float, float], tf.Tensor]] = {
    "linear": linear,
    "exponential": exponential,
    "inverse_sigmoid": inverse_sigmoid,
}


class ScheduledSampling:
    """When and how right words are replaced by predicted ones.

    All draws are functions of a seed, so that a step draws the same again after a restart.

    Args:
        decay: A key of `DECAYS` (Bengio et al. 2015, section 2.4).
        decay_start: First step of the decay; right words alone are read before it.
        decay_steps: Length or constant of the decay.
        decay_rate: Factor of the exponential decay in `decay_steps`.
        minimum: ε never falls below it.
        draw: `sample` takes a predicted word from the model's distribution, `likeliest` its
            likeliest.
    """

    def __init__(
        self,
        decay: str,
        decay_start: int = 0,
        decay_steps: int = 10_000,
        decay_rate: float = 0.5,
        minimum: float = 0.0,
        draw: Literal["sample", "likeliest"] = "sample",
    ):
        self.decay = decay
        self.decay_start = decay_start
        self.decay_steps = decay_steps
        self.decay_rate = decay_rate
        self.minimum = minimum
        self.draw = draw

    def right_probability(self, step: int | tf.Tensor) -> tf.Tensor:
        """ε: how probable the right word is at a step from 0, float32 []."""
        since = tf.maximum(tf.cast(step, tf.float32) - float(self.decay_start), 0.0)
        decayed = DECAYS[self.decay](since, float(self.decay_steps), self.decay_rate)
        # The inverse sigmoid starts a little below 1, at k / (k + 1); before its start it is 1.
        decayed = tf.where(since > 0.0, decayed, 1.0)
        return tf.clip_by_value(decayed, self.minimum, 1.0)

    def predict(self, logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """The model's own words.

        Args:
            logits: Float32 [..., V].
            seed: Int32 [2].

        Returns:
            Int32 [...] ids, through which no gradient flows.
        """
        if self.draw == "sample":
            uniform = tf.random.stateless_uniform(tf.shape(logits), seed)  # [..., V]
            # The largest of logits with Gumbel noise is a draw from their softmax.
            logits -= tf.math.log(-tf.math.log(uniform))
        return tf.argmax(tf.stop_gradient(logits), -1, output_type=tf.int32)


def mixed(
    right: tf.Tensor, predicted: tf.Tensor, right_probability: tf.Tensor, uniform: tf.Tensor
) -> tf.Tensor:
    """Right words, each replaced by the predicted one with probability 1 - ε.

    Args:
        right: Int32 [...], the words that belong there.
        predicted: Int32 [...], the model's own in their places.
        right_probability: ε, float32 [].
        uniform: Float32 [...], the draws in [0, 1), one a word.

    Returns:
        Int32 [...]. Pads stay.
    """
    replaced = tf.logical_and(uniform >= right_probability, tf.not_equal(right, PAD_ID))
    return tf.where(replaced, predicted, right)


def mixed_after_the_first(
    right: tf.Tensor, predicted: tf.Tensor, right_probability: tf.Tensor, seed: tf.Tensor
) -> tf.Tensor:
    """A decoder's inputs, mixed from the right ones and from predictions of all positions.

    Args:
        right: Int32 [B, T], begin mark first.
        predicted: Int32 [B, T]; the word predicted at a position is read at the next.
        right_probability: ε, float32 [].
        seed: Int32 [2], of the draws.

    Returns:
        Int32 [B, T]. The begin mark and pads stay.
    """
    shifted = tf.concat([right[:, :1], predicted[:, :-1]], 1)  # [B, T]
    uniform = tf.random.stateless_uniform(tf.shape(right), seed)  # [B, T]
    return mixed(right, shifted, right_probability, uniform)


def mixed_step_by_step(
    step: Callable[[tf.Tensor, Any], tuple[tf.Tensor, Any]],
    state: Any,
    right: tf.Tensor,
    right_probability: tf.Tensor,
    sampling: ScheduledSampling,
    seed: tf.Tensor,
) -> tf.Tensor:
    """A decoder's inputs, each mixed from the right word and what follows those before it.

    Args:
        step: From words [B, 1] and a state to logits [B, 1, V] and the next state, as searches
            take it.
        state: The first state.
        right: Int32 [B, T], begin mark first.
        right_probability: ε, float32 [].
        sampling: How words are predicted.
        seed: Int32 [2], of the draws.

    Returns:
        Int32 [B, T]. The begin mark and pads stay.
    """
    uniform = tf.random.stateless_uniform(tf.shape(right), seed)  # [B, T]
    times = tf.range(tf.shape(right)[1])  # [T]

    def advance(before: tuple, given: tuple) -> tuple:
        _, predicted, state = before
        right_words, draws, time = given  # [B], [B], []
        words = mixed(right_words, predicted, right_probability, draws)  # [B]
        logits, state = step(words[:, tf.newaxis], state)  # [B, 1, V]
        predicted = sampling.predict(logits[:, 0], fold_in(seed, time + 1))  # [B]
        return words, predicted, state

    first = right[:, 0]  # [B]; the begin mark, for want of a prediction before it
    words, _, _ = tf.scan(
        advance, (tf.transpose(right), tf.transpose(uniform), times), (first, first, state)
    )  # [T, B]
    return tf.transpose(words)


def fold_in(seed: tf.Tensor, number: int | tf.Tensor) -> tf.Tensor:
    """Another seed, int32 [2], of a seed and a number."""
    return tf.random.experimental.stateless_fold_in(seed, number)
