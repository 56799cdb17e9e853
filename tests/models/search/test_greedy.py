import numpy as np
import pytest

from tests.models.reference.search import greedy
from tests.models.search.toys import (
    END,
    ROWS_OF_TABLE,
    VOCABULARY,
    ToySearch,
    assert_same_hypotheses,
    log_probabilities_of,
    random_table,
)

LIMITS = [0, 1, 2, 5, 9]
SEEDS = [3, 14, 15, 92, 65]


@pytest.fixture(scope="module", params=[0.0, 1.0])
def search(request):
    return ToySearch(kind="greedy", length_penalty=request.param)


@pytest.mark.parametrize("seed", range(20))
def test_it_takes_the_likeliest_word_until_the_end_or_the_limit(search, seed):
    table = random_table(seed)
    found = search.hypotheses(table, SEEDS, LIMITS)
    for hypotheses, sentence, limit in zip(found, SEEDS, LIMITS, strict=True):
        function = log_probabilities_of(table, sentence)
        wanted = greedy(function, limit, search.options.length_penalty, END)
        assert_same_hypotheses(hypotheses, [wanted])


def test_nothing_follows_the_end_mark(search):
    table = random_table(1)
    ids, lengths, _, _ = search(table, SEEDS, LIMITS)
    for row, length in zip(ids[:, 0].numpy(), lengths[:, 0].numpy(), strict=True):
        assert row[length - 1] == END and END not in row[: length - 1]
        assert not row[length:].any()


def test_a_sentence_gets_alone_what_it_gets_in_a_batch(search):
    table = random_table(2)
    together = search.hypotheses(table, SEEDS, LIMITS)
    for row, (sentence, limit) in enumerate(zip(SEEDS, LIMITS, strict=True)):
        (alone,) = search.hypotheses(table, [sentence], [limit])
        assert_same_hypotheses(alone, together[row])


def test_without_an_end_mark_in_sight_the_limit_ends_it(search):
    table = random_table(3)
    table[:, END] = -50.0
    lengths = search(table, SEEDS, LIMITS).lengths[:, 0]
    assert lengths.numpy().tolist() == [limit + 1 for limit in LIMITS]


def test_it_asks_only_until_the_last_sentence_has_ended(search):
    table = random_table(4)
    table[:, END] = 50.0
    assert search.rounds(table, SEEDS, LIMITS) == 1


def test_the_first_of_equal_words_is_taken(search):
    (found,) = search.hypotheses(np.zeros((ROWS_OF_TABLE, VOCABULARY)), [1], [3])
    assert found[0].words == (0, 0, 0, END)
    np.testing.assert_allclose(found[0].log_probability, -4 * np.log(VOCABULARY), rtol=1e-6)


def test_no_sentences_have_no_translations(search):
    found = search(random_table(5), np.zeros([0], np.int32), np.zeros([0], np.int32))
    assert found.ids.shape[:2] == (0, 1) and found.scores.shape == (0, 1)
