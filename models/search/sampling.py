"""Sampling: the next word is drawn, not searched for. One graph, a seed a row."""

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
from models.search.random_rows import row_uniforms

_COLDEST, _HOTTEST = 1e-4, 1e4  # temperatures that logits are divided by without overflow


class Draws(NamedTuple):
    """How each of B rows draws its words."""

    temperature: tf.Tensor  # [B], float32: divides logits; not above 0 takes the likeliest word
    top_k: tf.Tensor  # [B], int32: only the k likeliest words; all if not above 0
    top_p: tf.Tensor  # [B], float32: only the likeliest words of this joint probability
    seeds: tf.Tensor  # [B], int32

    @classmethod
    def of(cls, options: SearchOptions, rows: tf.Tensor) -> "Draws":
        """The same for all rows: what a row gets must not depend on its place in a batch."""
        return cls(
            tf.fill([rows], tf.constant(options.temperature, tf.float32)),
            tf.fill([rows], options.top_k),
            tf.fill([rows], tf.constant(options.top_p, tf.float32)),
            tf.fill([rows], options.seed),
        )


class _Sampling(NamedTuple):
    """State of the drawing of B rows with L positions."""

    time: tf.Tensor  # [], int32: words drawn so far
    ids: tf.Tensor  # [B, L], int32
    lengths: tf.Tensor  # [B], int32: words so far
    log_probabilities: tf.Tensor  # [B], float32
    coverage_scores: tf.Tensor  # [B], float32: up to the last word
    open: tf.Tensor  # [B], bool: whether the row goes on
    state: Any  # the decoder's, [B, 1, ...]


def sampling_search(
    next_word: NextWord,
    state: Any,
    limits: SearchLimits,
    options: SearchOptions,
    begin_id: int,
    end_id: int,
    narrowed: NextWordOf | None = None,
) -> Hypotheses:
    """Draw words until the end mark; at the limit of words, take the end mark.

    Args:
        next_word: One decoder step.
        state: First state, with one hypothesis a sentence.
        limits: Bounds per sentence.
        options: Temperature, truncation and seed, the same for all; repeats; penalties of the
            score.
        begin_id: Word that starts a hypothesis.
        end_id: Word that ends one.
        narrowed: Not used: all sentences are stepped to the end.

    Returns:
        One hypothesis a sentence. Its log probability is the model's own, whatever the
        temperature and the truncation.
    """
    draws = Draws.of(options, tf.shape(limits.max_words)[0])
    return sample(next_word, state, limits, draws, options, begin_id, end_id)


def sample(
    next_word: NextWord,
    state: Any,
    limits: SearchLimits,
    draws: Draws,
    options: SearchOptions,
    begin_id: int | tf.Tensor,
    end_id: int | None,
    closes: bool = True,
) -> Hypotheses:
    """`sampling_search` with draws that differ from row to row.

    Words are drawn after temperature, the k likeliest (Fan et al. 2018) and the nucleus
    (Holtzman et al. 2020), in this order.

    Args:
        next_word: One decoder step.
        state: First state, with one hypothesis a row.
        limits: Bounds per row.
        draws: How each row draws.
        options: Repeats, and penalties of the score.
        begin_id: Word that starts a row; one for all, or int32 [B].
        end_id: Word that ends a row; if None, only the limit does.
        closes: Whether a row takes the end mark at its limit; else it stops without one.

    Returns:
        One hypothesis a row.
    """
    rows = tf.shape(limits.max_words)[0]
    positions = tf.reduce_max(tf.concat([limits.max_words, [0]], 0)) + 1
    closes = closes and end_id is not None
    uniforms = row_uniforms(draws.seeds, positions)  # [B, L]
    first = _Sampling(
        tf.constant(0),
        tf.zeros([rows, positions], tf.int32),
        tf.zeros([rows], tf.int32),
        tf.zeros([rows], tf.float32),
        tf.zeros([rows], tf.float32),
        tf.fill([rows], True) if closes else limits.max_words > 0,
        state,
    )

    def advance(*fields: Any) -> _Sampling:
        before = _Sampling(*fields)
        last = before.ids[:, tf.maximum(before.time - 1, 0)]  # [B]
        last = tf.where(tf.equal(before.time, 0), begin_id, last)
        logits, after = next_word(last[:, tf.newaxis], before.state)  # [B, 1, V]
        ids = before.ids[:, tf.newaxis, :]  # [B, 1, L]
        allowed = allowed_logits(logits, ids, before.time, limits, options, end_id)  # [B, 1, V]
        words = draw_words(allowed[:, 0, :], draws, uniforms[:, before.time])  # [B]
        if closes:
            words = tf.where(before.time >= limits.max_words, end_id, words)
        before = before._replace(
            coverage_scores=tf.where(
                before.open[:, tf.newaxis],
                coverage_score(after, options),
                before.coverage_scores[:, tf.newaxis],
            )[:, 0]
        )
        return _extended(before, words, logits[:, 0, :], after, limits, end_id, closes)

    end = _Sampling(
        *tf.while_loop(lambda *fields: tf.reduce_any(_Sampling(*fields).open), advance, list(first))
    )
    scores = end.log_probabilities / length_penalty(end.lengths, options.length_penalty)  # [B]
    scores += end.coverage_scores
    return Hypotheses(
        end.ids[:, tf.newaxis, :],
        end.lengths[:, tf.newaxis],
        scores[:, tf.newaxis],
        end.log_probabilities[:, tf.newaxis],
    )


def draw_words(logits: tf.Tensor, draws: Draws, uniforms: tf.Tensor) -> tf.Tensor:
    """A word of each row.

    Args:
        logits: Float32 [B, V].
        draws: How each row draws.
        uniforms: Float32 [B], in [0, 1): what chance says.

    Returns:
        Int32 [B].
    """
    temperature = tf.clip_by_value(draws.temperature, _COLDEST, _HOTTEST)[:, tf.newaxis]  # [B, 1]
    highest = tf.reduce_max(logits, -1, keepdims=True)  # [B, 1]
    weights = tf.exp((logits - highest) / temperature)  # [B, V]
    size = tf.shape(logits)[-1]
    limited = (draws.top_k > 0) & (draws.top_k < size) | (draws.top_p < 1.0)  # [B]
    # Sorting costs more than all else, and most requests do without.
    weights = tf.cond(tf.reduce_any(limited), lambda: _truncated(weights, draws), lambda: weights)
    sums = tf.cumsum(weights, -1)  # [B, V]
    reached = sums <= uniforms[:, tf.newaxis] * sums[:, -1:]  # [B, V]
    drawn = tf.math.count_nonzero(reached, -1, dtype=tf.int32)  # [B]
    # A temperature that is no number is not above 0 either.
    likeliest = tf.argmax(logits, -1, output_type=tf.int32)  # [B]
    return tf.where(draws.temperature > 0.0, tf.minimum(drawn, size - 1), likeliest)


def _truncated(weights: tf.Tensor, draws: Draws) -> tf.Tensor:
    """Weights [B, V], 0 where top-k or top-p leaves a word out; the likeliest one stays."""
    size = tf.shape(weights)[-1]
    ordered, words = tf.math.top_k(weights, size)  # [B, V]; of equals the first comes first
    ranks = tf.range(size)[tf.newaxis, :]  # [1, V]
    most = tf.where(draws.top_k > 0, draws.top_k, size)[:, tf.newaxis]  # [B, 1]
    kept = tf.where(ranks < most, ordered, 0.0)  # [B, V]
    before = tf.cumsum(kept, -1, exclusive=True)  # [B, V]
    within = before < draws.top_p[:, tf.newaxis] * tf.reduce_sum(kept, -1, keepdims=True)
    within |= draws.top_p[:, tf.newaxis] >= 1.0  # however the sums were rounded
    stays = (ranks < most) & within | tf.equal(ranks, 0)  # [B, V], by rank
    rows = tf.broadcast_to(tf.range(tf.shape(weights)[0])[:, tf.newaxis], tf.shape(words))
    places = tf.stack([rows, words], -1)  # [B, V, 2]
    by_word = tf.scatter_nd(places, tf.cast(stays, tf.float32), tf.shape(weights))  # [B, V]
    return weights * by_word


def _extended(
    before: _Sampling,
    words: tf.Tensor,
    logits: tf.Tensor,
    state: Any,
    limits: SearchLimits,
    end_id: int | None,
    closes: bool,
) -> _Sampling:
    """The rows after each open one has taken its word."""
    gained = tf.gather(logits, words, batch_dims=1) - tf.reduce_logsumexp(logits, -1)  # [B]
    here = tf.equal(tf.range(tf.shape(before.ids)[1]), before.time)[tf.newaxis, :]  # [1, L]
    ids = tf.where(here & before.open[:, tf.newaxis], words[:, tf.newaxis], before.ids)  # [B, L]
    time = before.time + 1
    goes_on = before.open
    if end_id is not None:
        goes_on &= tf.not_equal(words, end_id)
    if not closes:
        goes_on &= time < limits.max_words
    return _Sampling(
        time,
        ids,
        tf.where(before.open, time, before.lengths),
        before.log_probabilities + tf.where(before.open, gained, 0.0),
        before.coverage_scores,
        goes_on,
        state,
    )
