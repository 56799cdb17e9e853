"""Coverage, least lengths and repeats, in every search, against a search in Python."""

import numpy as np
import pytest
import tensorflow as tf

from models.search.allowed import repeating_words
from models.search.hypotheses import SearchLimits, SearchOptions
from tests.models.reference.search import Rules, beam, finish, greedy, repeats
from tests.models.search.toys import (
    END,
    VOCABULARY,
    ToySearch,
    assert_same_hypotheses,
    attention_of,
    log_probabilities_of,
    random_table,
)

LIMITS = [7, 0, 1, 5, 3]
SEEDS = [3, 14, 15, 92, 65]

RULES = {
    "least length": {"min_length": 3},
    "no word twice": {"no_repeat_ngram_size": 1},
    "no bigram twice": {"no_repeat_ngram_size": 2},
    "no trigram twice": {"no_repeat_ngram_size": 3},
    "coverage": {"coverage_penalty": 0.4},
    "little length, much coverage": {"coverage_penalty": 2.0, "length_penalty": 0.0},
    "all": {"coverage_penalty": 0.4, "no_repeat_ngram_size": 2, "min_length": 4},
    "more than there is": {"no_repeat_ngram_size": 1, "min_length": 6},
}


@pytest.fixture(scope="module", params=RULES.values(), ids=RULES)
def options(request):
    return request.param


@pytest.fixture(scope="module")
def single(options):
    return ToySearch(kind="beam", beam_size=1, **options)


@pytest.fixture(scope="module")
def greedily(options):
    return ToySearch(kind="greedy", **options)


@pytest.fixture(scope="module", params=[(3, 1), (4, 3)])
def wide(options, request):
    width, nbest = request.param
    return ToySearch(kind="beam", beam_size=width, nbest=nbest, **options)


def rules_of(options, sentence):
    return Rules(
        options.min_length,
        options.no_repeat_ngram_size,
        options.coverage_penalty,
        attention_of(sentence),
    )


def wanted(search, table, sentence, limit, stop_early=False):
    options = search.options
    shape = (options.beam_size, limit, options.length_penalty, options.nbest, END)
    function = log_probabilities_of(table, sentence)
    return beam(function, *shape, stop_early, rules_of(options, sentence))


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_finds_what_a_search_without_early_stop_finds(wide, seed):
    table = random_table(seed, 1.0)
    found = wide.hypotheses(table, SEEDS, LIMITS)
    for hypotheses, sentence, limit in zip(found, SEEDS, LIMITS, strict=True):
        assert_same_hypotheses(hypotheses, wanted(wide, table, sentence, limit)[0])


@pytest.mark.parametrize("seed", [3])
def test_it_stops_as_soon_as_nothing_can_change(wide, seed):
    table = random_table(seed)
    _, rounds = wanted(wide, table, SEEDS[0], 7, stop_early=True)
    assert wide.rounds(table, SEEDS[:1], [7]) == rounds


@pytest.mark.parametrize("seed", range(10))
def test_greedy_takes_the_likeliest_word_that_is_allowed(greedily, seed):
    table = random_table(seed)
    found = greedily.hypotheses(table, SEEDS, LIMITS)
    for hypotheses, sentence, limit in zip(found, SEEDS, LIMITS, strict=True):
        function = log_probabilities_of(table, sentence)
        rules = rules_of(greedily.options, sentence)
        best = greedy(function, limit, greedily.options.length_penalty, END, rules)
        assert_same_hypotheses(hypotheses, [best])


@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_one_is_greedy(seed, single, greedily):
    table = random_table(seed)
    both = zip(single(table, SEEDS, LIMITS), greedily(table, SEEDS, LIMITS), strict=True)
    for one, other in both:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(2))
def test_a_sentence_gets_alone_what_it_gets_in_a_batch(wide, seed):
    table = random_table(seed)
    together = wide.hypotheses(table, SEEDS, LIMITS)
    for row, (sentence, limit) in enumerate(zip(SEEDS, LIMITS, strict=True)):
        (alone,) = wide.hypotheses(table, [sentence], [limit])
        assert_same_hypotheses(alone, together[row])


@pytest.fixture(scope="module")
def drawing(options):
    return ToySearch(kind="sampling", seed=8, temperature=2.0, **options)


@pytest.mark.parametrize("seed", range(5))
def test_draws_keep_the_rules_and_are_scored_by_the_model_and_coverage(drawing, seed):
    search, table = drawing, random_table(seed, 1.0)
    found = search.hypotheses(table, SEEDS, LIMITS)
    for (drawn,), sentence, limit in zip(found, SEEDS, LIMITS, strict=True):
        rules = rules_of(search.options, sentence)
        function = log_probabilities_of(table, sentence)
        total = 0.0
        for place, word in enumerate(drawn.words):
            assert word in rules.words(drawn.words[:place], VOCABULARY, limit, END)
            total += function(drawn.words[:place])[word]
        scored = finish(drawn.words, total, search.options.length_penalty, rules)
        assert_same_hypotheses([drawn], [scored])


def test_draws_without_temperature_are_greedy(options, greedily):
    table = random_table(3)
    drawn = ToySearch(kind="sampling", temperature=0.0, **options)
    for one, other in zip(drawn(table, SEEDS, LIMITS), greedily(table, SEEDS, LIMITS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_coverage_changes_what_wins():
    """Else the tests above could pass without it."""
    changed = 0
    for seed in range(6):
        table = random_table(seed, 0.5)
        found = [
            ToySearch(kind="beam", beam_size=4, coverage_penalty=weight).hypotheses(
                table, SEEDS, LIMITS
            )
            for weight in (0.0, 1.0)
        ]
        changed += [each[0].words for each in found[0]] != [each[0].words for each in found[1]]
    assert changed


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_words_that_would_repeat_an_ngram_are_named(size):
    said = np.random.default_rng(size).integers(0, 3, [2, 2, 7]).astype(np.int32)
    for time in range(7):
        found = repeating_words(tf.constant(said), tf.constant(time), size, 4).numpy()
        for row in np.ndindex(2, 2):
            before = tuple(said[row][:time].tolist())
            named = [word for word in range(4) if repeats((*before, word), size)]
            assert np.flatnonzero(found[row]).tolist() == named


def test_no_translation_is_asked_to_be_longer_than_it_may_be():
    options = SearchOptions(min_length=4, max_length_factor=1.0, max_length_extra=1)
    limits = SearchLimits.from_source(tf.constant([0, 2, 9]), options)
    assert limits.max_words.numpy().tolist() == [0, 3, 10]
    table = random_table(1)
    table[:, END] = 50.0
    search = ToySearch(kind="beam", beam_size=3, min_length=4)
    lengths = search(table, SEEDS[:3], limits.max_words).lengths[:, 0]
    assert lengths.numpy().tolist() == [1, 4, 5]


PREFIXES = np.array([[1, 4, 1], [0, 0, 0], [4, 4, 0], [1, 0, 0], [4, 1, 4]], np.int32)
PREFIXED = {
    "greedy": {"kind": "greedy"},
    "beam": {"kind": "beam", "beam_size": 4},
    "beam with all rules": {"kind": "beam", "beam_size": 3, **RULES["all"]},
    "greedy with all rules": {"kind": "greedy", **RULES["all"]},
    "sampling": {"kind": "sampling", "temperature": 0.0},
}


@pytest.mark.parametrize("options", PREFIXED.values(), ids=PREFIXED)
def test_what_begins_with_a_prefix_is_searched_for_and_scored_whole(options):
    search = ToySearch(PREFIXES, **options)
    chosen = search.options
    for seed in range(5):
        table = random_table(seed, 1.0)
        found = search.hypotheses(table, SEEDS, LIMITS)
        for row, (sentence, limit) in enumerate(zip(SEEDS, LIMITS, strict=True)):
            prefix = tuple(PREFIXES[row][PREFIXES[row] > 0].tolist())
            rules = rules_of(chosen, sentence)._replace(prefix=prefix)
            most = max(limit, len(prefix))
            function = log_probabilities_of(table, sentence)
            if chosen.kind == "beam":
                shape = (chosen.beam_size, most, chosen.length_penalty, 1, END)
                best, _ = beam(function, *shape, rules=rules)
            else:
                best = [greedy(function, most, chosen.length_penalty, END, rules)]
            assert_same_hypotheses(found[row], best)
            assert found[row][0].words[: len(prefix)] == prefix


def test_no_prefix_is_as_none():
    table = random_table(2)
    none = ToySearch(np.zeros([5, 0], np.int32), kind="beam", beam_size=3)
    free = ToySearch(kind="beam", beam_size=3)
    for one, other in zip(none(table, SEEDS, LIMITS), free(table, SEEDS, LIMITS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_draws_begin_with_the_prefix():
    for seed in range(3):
        search = ToySearch(PREFIXES, kind="sampling", seed=seed, temperature=2.0)
        found = search.hypotheses(random_table(1), SEEDS, LIMITS)
        for (drawn,), prefix in zip(found, PREFIXES, strict=True):
            begun = tuple(prefix[prefix > 0].tolist())
            assert drawn.words[: len(begun)] == begun and drawn.words[-1] == END
