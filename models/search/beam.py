"""Beam search in one graph."""

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
from models.search.likeliest import likeliest
from models.search.narrowing import search_loop

_IMPOSSIBLE = float("-inf")


class _Beam(NamedTuple):
    """State of a search over B sentences with K hypotheses each and L positions."""

    time: tf.Tensor  # [], int32: words chosen so far
    alive_ids: tf.Tensor  # [B, K, L], int32
    alive_scores: tf.Tensor  # [B, K], float32: log probabilities; -inf where none is alive
    finished_ids: tf.Tensor  # [B, K, L], int32
    finished_lengths: tf.Tensor  # [B, K], int32, end mark included
    finished_log_probabilities: tf.Tensor  # [B, K], float32
    finished_scores: tf.Tensor  # [B, K], float32; -inf in empty places
    finished: tf.Tensor  # [B], int32: places taken
    state: Any  # the decoder's, [B, K, ...]


class _Candidates(NamedTuple):
    """The best continuations of each sentence, best first."""

    scores: tf.Tensor  # [B, K], float32: log probabilities; -inf where not allowed
    tokens: tf.Tensor  # [B, K], int32
    parents: tf.Tensor  # [B, K], int32: hypotheses they continue
    ends: tf.Tensor  # [B, K], bool: whether they end here


def beam_search(
    next_word: NextWord,
    state: Any,
    limits: SearchLimits,
    options: SearchOptions,
    begin_id: int,
    end_id: int,
    narrowed: NextWordOf | None = None,
) -> Hypotheses:
    """Beam search that shrinks as hypotheses finish (Sutskever et al. 2014, section 3.2).

    A finished hypothesis never grows and takes its place out of the beam, so a beam of one is
    the greedy search. A sentence ends when its beam is used up, or as soon as no hypothesis
    alive can overtake the last of the `nbest` finished ones, whatever it would still add. At
    its limit of words a hypothesis can only end.

    Args:
        next_word: One decoder step.
        state: First state, with one hypothesis a sentence.
        limits: Bounds per sentence.
        options: Width, penalties, repeats and number of results.
        begin_id: Word that starts a hypothesis.
        end_id: Word that ends one.
        narrowed: Gives the step over some of the sentences; None steps all to the end.

    Returns:
        The `options.nbest` best hypotheses of each sentence.
    """
    beam = _first_beam(state, limits, options.width)

    def step_over(next_word: NextWord, limits: SearchLimits) -> Callable[..., _Beam]:
        def advance(*fields: Any) -> _Beam:
            before = _Beam(*fields)
            tokens = _last_tokens(before, begin_id)  # [B, K]
            logits, after = next_word(tokens, before.state)  # [B, K, V]
            candidates = _continue(before, logits, limits, options, end_id)
            return _settle(before, candidates, after, limits, options)

        return advance

    return search_loop(
        beam,
        step_over,
        _is_open,
        lambda beam: _ranked(beam, options),
        next_word,
        limits,
        narrowed,
    )


def _is_open(beam: _Beam) -> tf.Tensor:
    """Sentences with a hypothesis alive, bool [B]."""
    return tf.reduce_any(beam.alive_scores > _IMPOSSIBLE, 1)


def _first_beam(state: Any, limits: SearchLimits, width: int) -> _Beam:
    rows = tf.shape(limits.max_words)[0]
    # The largest limit, and the end mark after it.
    positions = tf.reduce_max(tf.concat([limits.max_words, [0]], 0)) + 1
    ids = tf.zeros([rows, width, positions], tf.int32)  # [B, K, L]
    zeros = tf.zeros([rows, width], tf.int32)  # [B, K]
    impossible = tf.fill([rows, width], _IMPOSSIBLE)  # [B, K]
    # All hypotheses start alike, so only the first is alive.
    first = tf.one_hot(tf.zeros([rows], tf.int32), width, 0.0, _IMPOSSIBLE)  # [B, K]
    repeated = tf.nest.map_structure(lambda part: tf.repeat(part, width, axis=1), state)
    return _Beam(
        time=tf.constant(0),
        alive_ids=ids,
        alive_scores=first,
        finished_ids=ids,
        finished_lengths=zeros,
        finished_log_probabilities=impossible,
        finished_scores=impossible,
        finished=tf.zeros([rows], tf.int32),
        state=repeated,
    )


def _last_tokens(beam: _Beam, begin_id: int) -> tf.Tensor:
    """The word each hypothesis ends in, [B, K]."""
    last = tf.gather(beam.alive_ids, tf.maximum(beam.time - 1, 0), axis=2)  # [B, K]
    return tf.where(tf.equal(beam.time, 0), tf.fill(tf.shape(last), begin_id), last)


def _continue(
    beam: _Beam, logits: tf.Tensor, limits: SearchLimits, options: SearchOptions, end_id: int
) -> _Candidates:
    """The K best continuations; of these, only as many count as the beam has places left."""
    width = beam.alive_scores.shape[1]
    # Each hypothesis can fill the beam alone, but no more than that: its K best words do.
    allowed = allowed_logits(logits, beam.alive_ids, beam.time, limits, options, end_id)
    best, words = likeliest(allowed, min(width, logits.shape[-1]))  # [B, K, K]
    # A pass over all words is spared where the best is the highest.
    free = allowed is logits
    highest = best[:, :, :1] if free else tf.reduce_max(logits, -1, keepdims=True)  # [B, K, 1]
    sums = tf.reduce_sum(tf.exp(logits - highest), -1, keepdims=True)  # [B, K, 1]
    normalizers = highest + tf.math.log(sums)  # [B, K, 1]
    ending = tf.fill(tf.shape(words), end_id)  # [B, K, K]
    only_end = tf.where(
        tf.equal(tf.range(tf.shape(words)[-1]), 0), logits[:, :, end_id, tf.newaxis], _IMPOSSIBLE
    )  # [B, K, K]
    at_limit = (beam.time >= limits.max_words)[:, tf.newaxis, tf.newaxis]  # [B, 1, 1]
    words = tf.where(at_limit, ending, words)
    scores = tf.where(at_limit, only_end, best) - normalizers  # [B, K, K]
    scores += beam.alive_scores[:, :, tf.newaxis]
    rows, each = tf.shape(scores)[0], tf.shape(scores)[2]
    values, indices = tf.math.top_k(tf.reshape(scores, [rows, width * each]), width)  # [B, K]
    tokens = tf.gather(tf.reshape(words, [rows, width * each]), indices, batch_dims=1)  # [B, K]
    places = (width - beam.finished)[:, tf.newaxis]  # [B, 1]
    values = tf.where(tf.range(width)[tf.newaxis, :] < places, values, _IMPOSSIBLE)
    ends = tf.equal(tokens, end_id) & (values > _IMPOSSIBLE)  # [B, K]
    return _Candidates(values, tokens, indices // each, ends)


def _settle(
    beam: _Beam,
    candidates: _Candidates,
    state: Any,
    limits: SearchLimits,
    options: SearchOptions,
) -> _Beam:
    """The beam after its continuations are chosen."""
    ids = tf.gather(beam.alive_ids, candidates.parents, batch_dims=1)  # [B, K, L]
    here = tf.equal(tf.range(tf.shape(ids)[2]), beam.time)  # [L]
    ids = tf.where(here, candidates.tokens[:, :, tf.newaxis], ids)
    beam = _finish(beam, candidates, ids, state, options)
    alive = tf.where(candidates.ends, _IMPOSSIBLE, candidates.scores)  # [B, K]
    decided = _decided(beam, alive, limits, options)  # [B]
    return beam._replace(
        time=beam.time + 1,
        alive_ids=ids,
        alive_scores=tf.where(decided[:, tf.newaxis], _IMPOSSIBLE, alive),
        state=tf.nest.map_structure(
            lambda part: tf.gather(part, candidates.parents, batch_dims=1), state
        ),
    )


def _finish(
    beam: _Beam, candidates: _Candidates, ids: tf.Tensor, state: Any, options: SearchOptions
) -> _Beam:
    """Move what ended into the next free places; `state` is of the hypotheses before it."""
    width = beam.alive_scores.shape[1]
    ends = tf.cast(candidates.ends, tf.int32)  # [B, K]
    places = beam.finished[:, tf.newaxis] + tf.cumsum(ends, 1, exclusive=True)  # [B, K]
    places = tf.where(candidates.ends, places, -1)
    # to[b, p, k]: candidate k goes to place p.
    to = tf.equal(places[:, tf.newaxis, :], tf.range(width)[tf.newaxis, :, tf.newaxis])
    taken = tf.reduce_any(to, 2)  # [B, K]
    source = tf.argmax(tf.cast(to, tf.int32), 2, output_type=tf.int32)  # [B, K]
    length = beam.time + 1

    def moved(new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
        chosen = tf.gather(new, source, batch_dims=1)  # [B, K, ...]
        where = tf.reshape(taken, tf.concat([tf.shape(taken), [1] * (old.shape.rank - 2)], 0))
        return tf.where(where, chosen, old)

    scores = candidates.scores / length_penalty(length, options.length_penalty)  # [B, K]
    if options.coverage_penalty:
        scores += tf.gather(coverage_score(state, options), candidates.parents, batch_dims=1)
    return beam._replace(
        finished_ids=moved(ids, beam.finished_ids),
        finished_lengths=tf.where(taken, length, beam.finished_lengths),
        finished_log_probabilities=moved(candidates.scores, beam.finished_log_probabilities),
        finished_scores=moved(scores, beam.finished_scores),
        finished=beam.finished + tf.reduce_sum(ends, 1),
    )


def _decided(
    beam: _Beam, alive: tf.Tensor, limits: SearchLimits, options: SearchOptions
) -> tf.Tensor:
    """Sentences, bool [B], whose `nbest` no hypothesis alive can change.

    Log probabilities only fall and the penalty only grows with length, so the most that a
    hypothesis can reach is its log probability now over the penalty of the longest one. What
    coverage takes from that is never less than nothing.
    """
    longest = length_penalty(limits.max_words + 1, options.length_penalty)  # [B]
    reachable = tf.reduce_max(alive, 1) / longest  # [B]
    last = tf.math.top_k(beam.finished_scores, options.nbest).values[:, -1]  # [B]
    return (last > _IMPOSSIBLE) & (reachable <= last)


def _ranked(beam: _Beam, options: SearchOptions) -> Hypotheses:
    scores, order = tf.math.top_k(beam.finished_scores, options.nbest)  # [B, N]

    def ranked(part: tf.Tensor) -> tf.Tensor:
        return tf.gather(part, order, batch_dims=1)  # [B, N, ...]

    return Hypotheses(
        ranked(beam.finished_ids),
        ranked(beam.finished_lengths),
        scores,
        ranked(beam.finished_log_probabilities),
    )
