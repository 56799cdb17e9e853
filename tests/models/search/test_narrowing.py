"""Searches that leave out sentences that have ended find what they find with all of them."""

import numpy as np
import pytest
import tensorflow as tf

from models.search.narrowing import narrowing_loop
from tests.models.search.toys import END, ToySearch, random_table

SEEDS = [3, 14, 15, 92, 65, 35, 89, 79, 32]
LIMITS = [6, 0, 1, 12, 4, 9, 2, 2, 30]

SHAPES = {
    "beam": {"kind": "beam", "beam_size": 4, "nbest": 3},
    "beam of one": {"kind": "beam", "beam_size": 1},
    "rules": {"kind": "beam", "beam_size": 3, "no_repeat_ngram_size": 2, "min_length": 3},
    "prefix": {"kind": "beam", "beam_size": 3, "prefix": [[4, 1, 0]] * 4 + [[0, 0, 0]] * 5},
    "greedy": {"kind": "greedy"},
    "greedy with rules": {"kind": "greedy", "no_repeat_ngram_size": 2, "min_length": 2},
}


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES)
def searches(request):
    return ToySearch(**request.param), ToySearch(narrows=True, **request.param)


@pytest.mark.parametrize("peak", [0.5, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_each_sentence_gets_what_it_gets_with_all_stepped_to_the_end(searches, seed, peak):
    whole, narrowing = (search(random_table(seed, peak), SEEDS, LIMITS) for search in searches)
    np.testing.assert_array_equal(whole.ids, narrowing.ids)
    np.testing.assert_array_equal(whole.lengths, narrowing.lengths)
    # Sums over words are rounded by how many rows there are.
    np.testing.assert_allclose(whole.scores, narrowing.scores, rtol=1e-6)
    np.testing.assert_allclose(whole.log_probabilities, narrowing.log_probabilities, rtol=1e-6)


def test_no_sentences_have_no_translations(searches):
    none = np.zeros([0], np.int32)
    if searches[1].prefix is None:
        assert searches[1](random_table(0), none, none).ids.shape[0] == 0


class Count(tuple):
    """Scalars and counters of sentences."""

    @classmethod
    def _make(cls, fields):
        return cls(fields)


def counted(limits):
    """How many rows each step has, when sentences end after so many steps."""
    sizes = []

    def step_of(rows):
        def step(time, counts):
            sizes.append(int(tf.size(counts)))
            return Count([time + 1, counts + 1])

        return step

    first = Count([tf.constant(0), tf.zeros([len(limits)], tf.int32)])
    left = {"rows": tf.range(len(limits))}

    def step_over(rows):
        left["rows"] = rows
        return step_of(rows)

    def is_open(state):
        return state[1] < tf.gather(tf.constant(limits), left["rows"])

    narrowing_loop(first, step_over, is_open, lambda state: state[1])
    return sizes


def test_rows_are_left_out_when_an_eighth_of_them_has_ended():
    assert counted([1, 2, 3, 4]) == [4, 3, 2, 1]
    assert counted([9, 1, 1, 1]) == [4, *[1] * 8]
    assert counted([2, 2, 2]) == [3, 3]
    assert counted([1, *[3] * 15]) == [16] * 3
    assert counted([1, 2, *[3] * 14]) == [16, 16, 14]
    rows = counted(list(range(1, 65)))
    assert sum(rows) <= 8 / 7 * sum(range(1, 65))


def test_an_end_that_is_impossible_lets_all_sentences_run_to_their_limits():
    table = random_table(0)
    table[:, END] = -np.inf
    found = ToySearch(kind="greedy", narrows=True)(table, SEEDS, LIMITS)
    assert found.lengths[:, 0].numpy().tolist() == [limit + 1 for limit in LIMITS]
