import numpy as np
import pytest

from tests.models.reference.search import beam, every_hypothesis
from tests.models.search.toys import (
    END,
    ROWS_OF_TABLE,
    VOCABULARY,
    ToySearch,
    assert_same_hypotheses,
    log_probabilities_of,
    random_table,
)

LIMITS = [6, 0, 1, 3, 4]
SEEDS = [3, 14, 15, 92, 65]

SHAPES = {
    "one": {"beam_size": 1},
    "narrow": {"beam_size": 2, "nbest": 2, "length_penalty": 0.6},
    "usual": {"beam_size": 4, "nbest": 1, "length_penalty": 1.0},
    "plain": {"beam_size": 3, "nbest": 2, "length_penalty": 0.0},
    "wider than the vocabulary": {"beam_size": 8, "nbest": 8, "length_penalty": 2.0},
}


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES)
def search(request):
    return ToySearch(kind="beam", **request.param)


def wanted(search, table, sentence, limit, stop_early=False):
    options = search.options
    shape = (options.beam_size, limit, options.length_penalty, options.nbest, END)
    return beam(log_probabilities_of(table, sentence), *shape, stop_early)


def never(*words, seed=0):
    """A table in which some words are impossible."""
    table = random_table(seed)
    table[:, list(words)] = -np.inf
    return table


@pytest.mark.parametrize("peak", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_a_search_without_early_stop_finds(search, seed, peak):
    table = random_table(seed, peak)
    found = search.hypotheses(table, SEEDS, LIMITS)
    for hypotheses, sentence, limit in zip(found, SEEDS, LIMITS, strict=True):
        assert_same_hypotheses(hypotheses, wanted(search, table, sentence, limit)[0])


@pytest.mark.parametrize("seed", range(4))
def test_it_stops_as_soon_as_nothing_can_change(search, seed):
    table = random_table(seed)
    for sentence in SEEDS[:2]:
        _, rounds = wanted(search, table, sentence, 6, stop_early=True)
        assert search.rounds(table, [sentence], [6]) == rounds


def test_a_sure_end_spares_the_remaining_rounds():
    table = random_table(0)
    table[:, END] = 20.0
    search = ToySearch(kind="beam", beam_size=4)
    assert search.rounds(table, SEEDS, [50] * len(SEEDS)) == 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("power", [0.0, 1.0, 3.0])
def test_wide_enough_it_finds_the_best_of_all(wide_searches, power, seed):
    """With 5 words and at most 3 before the end, there are 1 + 4 + 16 + 64 hypotheses."""
    table = random_table(seed)
    found = wide_searches[power].hypotheses(table, SEEDS[:2], [3, 2])
    for hypotheses, sentence, limit in zip(found, SEEDS, [3, 2], strict=False):
        function = log_probabilities_of(table, sentence)
        best = every_hypothesis(function, VOCABULARY, limit, power, END)
        assert_same_hypotheses(hypotheses, best[:5])


@pytest.fixture(scope="module")
def wide_searches():
    return {
        power: ToySearch(kind="beam", beam_size=85, nbest=5, length_penalty=power)
        for power in (0.0, 1.0, 3.0)
    }


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_one_is_greedy(seed, single, greedy):
    table = random_table(seed)
    for one, other in zip(single(table, SEEDS, LIMITS), greedy(table, SEEDS, LIMITS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_beam_of_one_is_greedy_where_all_words_are_equal(single, greedy):
    table = np.zeros((ROWS_OF_TABLE, VOCABULARY))
    assert single.hypotheses(table, SEEDS, LIMITS) == greedy.hypotheses(table, SEEDS, LIMITS)


@pytest.fixture(scope="module")
def single():
    return ToySearch(kind="beam", beam_size=1)


@pytest.fixture(scope="module")
def greedy():
    return ToySearch(kind="greedy")


@pytest.mark.parametrize("seed", range(3))
def test_finished_hypotheses_never_grow(search, seed):
    ids, lengths, _, _ = search(random_table(seed), SEEDS, LIMITS)
    for row, length, limit in zip(ids.numpy(), lengths.numpy(), LIMITS, strict=True):
        for words, count in zip(row, length, strict=True):
            assert count <= limit + 1
            assert not words[count:].any()
            assert not count or (words[count - 1] == END and END not in words[: count - 1])


@pytest.mark.parametrize("seed", range(3))
def test_the_best_are_distinct_and_sorted(search, seed):
    for hypotheses in search.hypotheses(random_table(seed), SEEDS, LIMITS):
        scores = [each.score for each in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({each.words for each in hypotheses}) == len(hypotheses) >= 1


@pytest.mark.parametrize("seed", range(3))
def test_a_sentence_gets_alone_what_it_gets_in_a_batch(search, seed):
    table = random_table(seed)
    together = search.hypotheses(table, SEEDS, LIMITS)
    for row, (sentence, limit) in enumerate(zip(SEEDS, LIMITS, strict=True)):
        (alone,) = search.hypotheses(table, [sentence], [limit])
        assert_same_hypotheses(alone, together[row])


def test_where_fewer_can_finish_the_other_places_are_empty():
    search = ToySearch(kind="beam", beam_size=3, nbest=3)
    found = search(random_table(0), [1, 2], [0, 4])
    assert found.lengths[0].numpy().tolist() == [1, 0, 0]
    assert found.scores[0, 1:].numpy().tolist() == [-np.inf, -np.inf]
    assert found.log_probabilities[0, 1:].numpy().tolist() == [-np.inf, -np.inf]
    assert not found.ids[0, 1:].numpy().any()
    assert found.lengths[1].numpy().all()


def test_impossible_words_are_never_said(search):
    table = never(1, 4)
    found = search.hypotheses(table, SEEDS, LIMITS)
    for hypotheses, sentence, limit in zip(found, SEEDS, LIMITS, strict=True):
        assert not {1, 4} & {word for each in hypotheses for word in each.words}
        assert_same_hypotheses(hypotheses, wanted(search, table, sentence, limit)[0])


def test_an_impossible_end_leaves_no_translation_and_the_search_ends(search):
    found = search(never(END), SEEDS, LIMITS)
    assert not found.lengths.numpy().any()
    assert (found.scores.numpy() == -np.inf).all()


def test_no_sentences_have_no_translations(search):
    none = np.zeros([0], np.int32)
    found = search(random_table(5), none, none)
    assert found.ids.shape[:2] == (0, search.options.nbest)
    assert found.scores.shape == (0, search.options.nbest)
