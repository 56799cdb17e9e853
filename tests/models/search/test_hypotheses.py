import numpy as np
import pytest
import tensorflow as tf

from models.search.hypotheses import SearchLimits, SearchOptions, length_penalty


@pytest.mark.parametrize("power", [0.0, 0.6, 1.0, 2.0])
def test_the_length_penalty_is_the_equation(power):
    lengths = np.array([1, 2, 7, 100])
    found = length_penalty(tf.constant(lengths, tf.int32), power)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, ((5 + lengths) / 6) ** power, rtol=1e-6)


def test_one_word_is_not_penalised():
    np.testing.assert_allclose(length_penalty(tf.constant(1), 1.7), 1.0)


def test_limits_grow_with_the_source_and_nothing_translates_to_nothing():
    options = SearchOptions(max_length_factor=1.5, max_length_extra=4)
    limits = SearchLimits.from_source(tf.constant([-1, 0, 1, 2, 3, 40]), options)
    assert limits.max_words.dtype == tf.int32
    assert limits.max_words.numpy().tolist() == [0, 0, 5, 7, 8, 64]


def test_greedy_keeps_one_hypothesis_whatever_the_beam():
    assert SearchOptions(kind="greedy", beam_size=7).width == 1
    assert SearchOptions(kind="beam", beam_size=7).width == 7
