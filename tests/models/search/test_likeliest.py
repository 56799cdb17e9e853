import numpy as np
import pytest
import tensorflow as tf

from models.search.likeliest import likeliest

SHAPES = [(2, 3, 7), (2, 3, 1000), (1, 1, 5000), (3, 2, 4999), (0, 4, 2000)]


def tied(random, shape):
    """Few different numbers, so that many words are equal."""
    return random.integers(0, 4, shape).astype(np.float32)


def mostly_impossible(random, shape):
    values = np.full(shape, -np.inf, np.float32)
    values[..., -2:] = random.normal(size=(*shape[:-1], 2))
    return values


KINDS = {
    "spread": lambda random, shape: random.normal(size=shape).astype(np.float32),
    "tied": tied,
    "equal": lambda random, shape: np.zeros(shape, np.float32),
    "mostly impossible": mostly_impossible,
    "rising": lambda random, shape: np.broadcast_to(np.arange(shape[-1], dtype="f"), shape),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 5])
def test_it_is_a_stable_sort(kind, shape, count):
    logits = kind(np.random.default_rng(1), shape)
    order = np.argsort(-logits, axis=-1, kind="stable")[..., :count]
    values, words = likeliest(tf.constant(logits), count)
    np.testing.assert_array_equal(words, order)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, order, -1))
