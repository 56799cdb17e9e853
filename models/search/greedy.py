"""Greedy search in one graph."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from models.search.allowed import allowed_logits
from models.search.coverage import coverage_score
from models.search.hypotheses import (
    Hypotheses,
    NextWord,
    NextWordOf,
    SearchLimits,
    SearchOptions,
    length_penalty,
)
from models.search.narrowing import search_loop


class _Greedy(NamedTuple):
    """State of a search over B sentences with L positions."""

    time: tf.Tensor  # [], int32: words chosen so far
    ids: tf.Tensor  # [B, L], int32
    lengths: tf.Tensor  # [B], int32: 0 until a sentence has ended
    log_probabilities: tf.Tensor  # [B], float32
    coverage_scores: tf.Tensor  # [B], float32: when a sentence ended
    state: Any  # the decoder's, [B, 1, ...]


def greedy_search(
    next_word: NextWord,
    state: Any,
    limits: SearchLimits,
    options: SearchOptions,
    begin_id: int,
    end_id: int,
    narrowed: NextWordOf | None = None,
) -> Hypotheses:
    """Take the likeliest word until the end mark; at the limit of words, take the end mark.

    Args:
        next_word: One decoder step.
        state: First state, with one hypothesis a sentence.
        limits: Bounds per sentence.
        options: Penalties of the score, and repeats.
        begin_id: Word that starts a hypothesis.
        end_id: Word that ends one.
        narrowed: Gives the step over some of the sentences; None steps all to the end.

    Returns:
        One hypothesis a sentence.
    """
    rows = tf.shape(limits.max_words)[0]
    positions = tf.reduce_max(tf.concat([limits.max_words, [0]], 0)) + 1
    first = _Greedy(
        tf.constant(0),
        tf.zeros([rows, positions], tf.int32),
        tf.zeros([rows], tf.int32),
        tf.zeros([rows], tf.float32),
        tf.zeros([rows], tf.float32),
        state,
    )

    def step_over(next_word: NextWord, limits: SearchLimits) -> Callable[..., _Greedy]:
        def advance(*fields: Any) -> _Greedy:
            before = _Greedy(*fields)
            last = before.ids[:, tf.maximum(before.time - 1, 0)]  # [B]
            last = tf.where(tf.equal(before.time, 0), begin_id, last)
            logits, after = next_word(last[:, tf.newaxis], before.state)  # [B, 1, V]
            return _choose(before, logits, after, limits, options, end_id)

        return advance

    return search_loop(
        first,
        step_over,
        _is_open,
        lambda end: _hypotheses(end, options),
        next_word,
        limits,
        narrowed,
    )


def _is_open(search: _Greedy) -> tf.Tensor:
    """Sentences that have not ended, bool [B]."""
    return tf.equal(search.lengths, 0)


def _hypotheses(end: _Greedy, options: SearchOptions) -> Hypotheses:
    scores = end.log_probabilities / length_penalty(end.lengths, options.length_penalty)  # [B]
    scores += end.coverage_scores
    return Hypotheses(
        end.ids[:, tf.newaxis, :],
        end.lengths[:, tf.newaxis],
        scores[:, tf.newaxis],
        end.log_probabilities[:, tf.newaxis],
    )


def _choose(
    before: _Greedy,
    logits: tf.Tensor,
    state: Any,
    limits: SearchLimits,
    options: SearchOptions,
    end_id: int,
) -> _Greedy:
    """The search after each unfinished sentence has taken its word from logits [B, 1, V]."""
    ids = before.ids[:, tf.newaxis, :]  # [B, 1, L]
    allowed = allowed_logits(logits, ids, before.time, limits, options, end_id)  # [B, 1, V]
    words = tf.argmax(allowed[:, 0, :], -1, output_type=tf.int32)  # [B]
    logits = logits[:, 0, :]  # [B, V]
    words = tf.where(before.time >= limits.max_words, end_id, words)
    chosen = tf.gather(logits, words, batch_dims=1)  # [B]
    gained = chosen - tf.reduce_logsumexp(logits, -1)  # [B]
    open_ = tf.equal(before.lengths, 0)  # [B]
    here = tf.equal(tf.range(tf.shape(before.ids)[1]), before.time)[tf.newaxis, :]  # [1, L]
    ids = tf.where(here & open_[:, tf.newaxis], words[:, tf.newaxis], before.ids)  # [B, L]
    ended = open_ & tf.equal(words, end_id)  # [B]
    scores = before.coverage_scores[:, tf.newaxis]  # [B, 1]
    return _Greedy(
        before.time + 1,
        ids,
        tf.where(ended, before.time + 1, before.lengths),
        before.log_probabilities + tf.where(open_, gained, 0.0),
        tf.where(ended[:, tf.newaxis], coverage_score(state, options), scores)[:, 0],
        state,
    )
