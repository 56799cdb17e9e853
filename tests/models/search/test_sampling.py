"""Draws: their distribution, their truncation, and what a row may rely on."""

import numpy as np
import pytest
import tensorflow as tf

from models.search.hypotheses import SearchLimits, SearchOptions
from models.search.sampling import Draws, draw_words, sample
from tests.models.reference.losses import log_softmax
from tests.models.search.toys import (
    BEGIN,
    END,
    VOCABULARY,
    ToySearch,
    assert_same_hypotheses,
    first_state,
    log_probabilities_of,
    next_word_of,
    random_table,
)

LIMITS = [0, 1, 2, 5, 9]
SEEDS = [3, 14, 15, 92, 65]


def draws_of(rows, temperature=1.0, top_k=0, top_p=1.0, first_seed=0):
    return Draws(
        tf.fill([rows], temperature),
        tf.fill([rows], top_k),
        tf.fill([rows], top_p),
        tf.range(first_seed, first_seed + rows),
    )


def kept_probabilities(logits, temperature, top_k, top_p):
    """What words are drawn with, written from the definitions, a word after the other."""
    tempered = np.exp(log_softmax(logits / temperature))
    order = np.argsort(-tempered, kind="stable")
    kept = order[: top_k or len(order)]
    mass, nucleus = 0.0, []
    for word in kept:
        if nucleus and mass >= top_p * tempered[kept].sum():
            break
        nucleus.append(word)
        mass += tempered[word]
    probabilities = np.zeros(len(logits))
    probabilities[nucleus] = tempered[nucleus]
    return probabilities / probabilities.sum()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [
        (1.0, 0, 1.0),
        (0.5, 0, 1.0),
        (2.0, 0, 1.0),
        (1.0, 3, 1.0),
        (1.0, 0, 0.7),
        (1.5, 4, 0.8),
        (1.0, 99, 0.0),
    ],
)
def test_words_come_as_often_as_they_should(temperature, top_k, top_p):
    """Of evenly spread chances each word gets its share, and the words left out none."""
    logits = np.random.default_rng(0).normal(0.0, 1.5, 9)
    expected = kept_probabilities(logits, temperature, min(top_k, 9), top_p)
    rows = 4096
    words = draw_words(
        tf.repeat(tf.constant(logits, tf.float32)[tf.newaxis], rows, 0),
        draws_of(rows, temperature, top_k, top_p),
        (tf.range(rows, dtype=tf.float32) + 0.5) / rows,
    )
    found = np.bincount(words, minlength=9) / rows
    np.testing.assert_allclose(found, expected, atol=1.5 / rows)


@pytest.fixture(scope="module")
def tempered():
    return ToySearch(kind="sampling", temperature=0.8, top_k=4, top_p=0.95, seed=7)


@pytest.mark.parametrize("seed", range(5))
def test_a_row_ends_at_its_end_mark_or_limit_and_is_scored_by_the_model(tempered, seed):
    table = random_table(seed, peak=1.0)
    found = tempered.hypotheses(table, SEEDS, LIMITS)
    for (hypothesis,), sentence, limit in zip(found, SEEDS, LIMITS, strict=True):
        words = hypothesis.words
        assert words[-1] == END and END not in words[:-1] and len(words) <= limit + 1
        function = log_probabilities_of(table, sentence)
        wanted = sum(function(words[:place])[word] for place, word in enumerate(words))
        np.testing.assert_allclose(hypothesis.log_probability, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.0}, {"temperature": 1e-6}, {"top_k": 1}, {"top_p": 0.0}],
    ids=str,
)
def test_without_a_choice_it_is_the_greedy_search(options):
    greedy, sampling = ToySearch(kind="greedy"), ToySearch(kind="sampling", **options)
    for seed in range(5):
        table = random_table(seed)
        given = (table, SEEDS, LIMITS)
        for one, other in zip(greedy.hypotheses(*given), sampling.hypotheses(*given), strict=True):
            assert_same_hypotheses(one, other)


def test_the_first_of_equal_words_is_the_likeliest():
    for options in ({"temperature": 0.0}, {"top_k": 1}):
        words = draw_words(tf.zeros([3, 6]), draws_of(3, **options), tf.constant([0.0, 0.5, 0.9]))
        assert words.numpy().tolist() == [0, 0, 0]


def test_a_row_gets_alone_what_it_gets_in_a_batch():
    """Also where another row's truncation makes all rows take the longer way."""
    table = tf.constant(random_table(2, peak=0.5), tf.float32)
    draws = Draws(
        tf.constant([1.0, 0.7, 1.3, 0.0, 1.0]),
        tf.constant([0, 2, 0, 0, 0]),
        tf.constant([1.0, 1.0, 0.6, 1.0, 1.0]),
        tf.constant([5, 6, 7, 8, 9]),
    )

    def run(rows):
        part = Draws(*(tf.gather(each, rows) for each in draws))
        return sample(
            next_word_of(table),
            first_state(tf.gather(SEEDS, rows)),
            SearchLimits(tf.gather([9, 9, 9, 9, 9], rows)),
            part,
            SearchOptions(),
            BEGIN,
            END,
        )

    together = run([0, 1, 2, 3, 4])
    for row in range(5):
        alone = run([row])
        length = int(alone.lengths[0, 0])
        assert length == int(together.lengths[row, 0])
        np.testing.assert_array_equal(alone.ids[0, 0, :length], together.ids[row, 0, :length])


def test_same_seed_same_words_another_seed_others():
    table = random_table(3, peak=0.1)
    table[:, END] = -50.0

    def words(seed):
        (found,) = ToySearch(kind="sampling", seed=seed).hypotheses(table, [3], [40])[0]
        return found.words

    assert words(1) == words(1) != words(2)


def without_end(end_id, limits, closes=False, min_words=None):
    return sample(
        next_word_of(tf.constant(random_table(4, peak=0.3), tf.float32)),
        first_state(tf.constant(SEEDS)),
        SearchLimits(tf.constant(limits), min_words),
        draws_of(5, first_seed=20),
        SearchOptions(),
        BEGIN,
        end_id,
        closes,
    )


def test_without_an_end_mark_only_the_limit_ends_a_row():
    found = without_end(None, LIMITS)
    assert found.lengths[:, 0].numpy().tolist() == LIMITS
    assert (found.ids[-1, 0, :9].numpy() == END).any()  # It goes on through the mark.
    np.testing.assert_allclose(found.log_probabilities[0, 0], 0.0)


def test_a_row_that_need_not_close_is_cut_at_its_limit():
    found = without_end(END, LIMITS)
    ids, lengths = found.ids[:, 0].numpy(), found.lengths[:, 0].numpy()
    for row, limit in enumerate(LIMITS):
        assert lengths[row] <= limit
        assert lengths[row] == limit or ids[row, lengths[row] - 1] == END
        assert not ids[row, lengths[row] :].any()


def test_no_row_ends_before_its_least_length():
    found = without_end(END, [9] * 5, closes=True, min_words=tf.constant([0, 2, 4, 9, 9]))
    assert (found.lengths[:, 0].numpy() > [0, 2, 4, 9, 9]).all()
    free = without_end(END, [9] * 5, closes=True)
    assert (free.lengths[:, 0].numpy() <= 9).any()


@pytest.mark.parametrize("temperature", [float("nan"), float("inf"), -1.0, 1e-30])
def test_no_temperature_makes_a_word_that_cannot_be(temperature):
    logits = tf.constant([[-1e9, 0.0, 1.0, -1e9]])
    for uniform in (0.0, 0.5, 1.0 - 2**-23):
        word = int(draw_words(logits, draws_of(1, temperature), tf.constant([uniform]))[0])
        assert word in (1, 2)


def test_no_rows(tempered):
    found = tempered(random_table(5), np.zeros([0], np.int32), np.zeros([0], np.int32))
    assert found.ids.shape[:2] == (0, 1) and found.scores.shape == (0, 1)
    assert VOCABULARY == 5
