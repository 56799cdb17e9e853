"""A loop over sentences that goes on with fewer of them as they end.

A batch takes as many steps as its longest target, and a step costs what its rows cost. So the
loop is left whenever an eighth of the sentences that it began with have ended, and goes on with
the others alone: the rows of all steps together are at most 8/7 of the words that are needed. To
leave it costs what it takes to copy the states of those that go on, a small part of a step.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from models.search.hypotheses import NextWord, NextWordOf, SearchLimits

State = TypeVar("State", bound=tuple)

# Of a loop's sentences, the share whose end leaves it.
_SHARE = 8


def narrowing_loop(
    first: State,
    step_of: Callable[[tf.Tensor], Callable[..., State]],
    is_open: Callable[[State], tf.Tensor],
    outcome_of: Callable[[State], Any],
) -> Any:
    """Step until all of B sentences have ended.

    Args:
        first: A named tuple whose fields are scalars or structures of [B, ...].
        step_of: Gives the step, from fields to a state, of R of the sentences, int32 [R].
        is_open: Bool [R], the sentences of a state that go on.
        outcome_of: What is wanted of a state, a structure of [R, ...].

    Returns:
        The outcome of all sentences, [B, ...], each as it was when it ended.
    """
    of_fields = type(first)._make  # type: ignore[attr-defined]
    rows = tf.range(tf.shape(is_open(first))[0])  # [R]

    def phase(rows: tf.Tensor, outcomes: Any, *fields: Any) -> tuple:
        step, enough = step_of(rows), tf.size(rows) - 1 - (tf.size(rows) - 1) // _SHARE
        state = of_fields(
            tf.while_loop(
                lambda *fields: (
                    tf.math.count_nonzero(is_open(of_fields(fields)), dtype=tf.int32) > enough
                ),
                step,
                list(fields),
            )
        )
        # Of those that go on there is an outcome too, which a later phase replaces.
        outcomes = tf.nest.map_structure(
            lambda all_, some: tf.tensor_scatter_nd_update(all_, rows[:, tf.newaxis], some),
            outcomes,
            outcome_of(state),
        )
        left = tf.where(is_open(state))[:, 0]  # [R']
        return tf.gather(rows, left), outcomes, *_gathered(state, left)

    begun = (rows, outcome_of(first), *first)
    _, outcomes, *_ = tf.while_loop(
        lambda rows, *_: tf.size(rows) > 0,
        phase,
        begun,
        shape_invariants=tf.nest.map_structure(_any_rows, begun),
    )
    return outcomes


def search_loop(
    first: State,
    step_over: Callable[[NextWord, SearchLimits], Callable[..., State]],
    is_open: Callable[[State], tf.Tensor],
    outcome_of: Callable[[State], Any],
    next_word: NextWord,
    limits: SearchLimits,
    narrowed: NextWordOf | None,
) -> Any:
    """Search until all of B sentences have ended.

    Args:
        first: As of `narrowing_loop`.
        step_over: Gives the search's step by a decoder's step and limits of the same sentences.
        is_open: As of `narrowing_loop`.
        outcome_of: Likewise.
        next_word: The decoder's step over all sentences.
        limits: Bounds per sentence.
        narrowed: Gives the decoder's step over some of the sentences; None steps all to the end.

    Returns:
        The outcome of all sentences.
    """
    if narrowed is not None:
        return narrowing_loop(
            first,
            lambda rows: step_over(narrowed(rows), limits.of(rows)),
            is_open,
            outcome_of,
        )
    of_fields = type(first)._make  # type: ignore[attr-defined]
    end = tf.while_loop(
        lambda *fields: tf.reduce_any(is_open(of_fields(fields))),
        step_over(next_word, limits),
        list(first),
    )
    return outcome_of(of_fields(end))


def _gathered(structure: Any, rows: tf.Tensor) -> Any:
    """The rows of a structure of [R, ...] and scalars."""
    return tf.nest.map_structure(
        lambda part: part if part.shape.rank == 0 else tf.gather(part, rows), structure
    )


def _any_rows(tensor: tf.Tensor) -> tf.TensorShape:
    return tensor.shape if tensor.shape.rank == 0 else tf.TensorShape([None, *tensor.shape[1:]])
