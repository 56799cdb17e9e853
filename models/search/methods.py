"""Searches by name."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from models.errors import UserError
from models.search.beam import beam_search
from models.search.greedy import greedy_search
from models.search.hypotheses import (
    Hypotheses,
    NextWord,
    NextWordOf,
    SearchLimits,
    SearchOptions,
)
from models.search.sampling import sampling_search

SEARCHES: dict[str, Callable[..., Hypotheses]] = {
    "greedy": greedy_search,
    "beam": beam_search,
    "sampling": sampling_search,
}


def search(
    next_word: NextWord,
    state: Any,
    limits: SearchLimits,
    options: SearchOptions,
    begin_id: int,
    end_id: int,
    narrowed: NextWordOf | None = None,
) -> Hypotheses:
    """Run the search that `options.kind` names.

    Args:
        next_word: One decoder step.
        state: First state, with one hypothesis a sentence.
        limits: Bounds per sentence.
        options: Which search and how.
        begin_id: Word that starts a hypothesis.
        end_id: Word that ends one.
        narrowed: Gives the step over some of the sentences, so that those that have ended cost
            no more; None has all of them stepped to the end, as sampling does anyway.

    Returns:
        The `options.nbest` best hypotheses of each sentence.

    Raises:
        UserError: If more translations are asked for than the search keeps.
    """
    if options.nbest > options.width:
        raise UserError(
            f"{options.nbest} translations are asked for, but the search keeps {options.width}; "
            f"take search.kind 'beam' and a search.beam_size of {options.nbest} or more, or lower "
            f"export.nbest"
        )
    tf.debugging.assert_rank(limits.max_words, 1)
    given = (next_word, state, limits, options, begin_id, end_id, narrowed)
    return SEARCHES[options.kind](*given)
