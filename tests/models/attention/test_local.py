import numpy as np
import pytest
import tensorflow as tf

from models.attention.local import distances, source_lengths
from tests.models.attention.cases import LENGTHS, WINDOW, expected, make, trainable
from tests.models.examples import close, mask_of, random_tensor


def spread(weights):
    """First and last position with weight, of each query."""
    found = [np.nonzero(row)[0][[0, -1]] for row in weights.reshape(-1, weights.shape[-1])]
    return np.array(found).reshape(*weights.shape[:-1], 2)


def test_a_monotonic_window_moves_with_the_place_and_stays_at_the_end():
    attention = make("local_monotonic", "general")
    query, memory = random_tensor(1, 12, 4, seed=1), random_tensor(1, 8, 3, seed=2)
    _, weights = attention(query, memory, mask_of([6], 8))
    middle = np.minimum(np.arange(12), 5)
    wanted = np.stack([np.maximum(middle - WINDOW, 0), np.minimum(middle + WINDOW, 5)], -1)
    np.testing.assert_array_equal(spread(weights.numpy())[0], wanted)


def test_places_are_those_given_whatever_the_order_of_the_queries():
    attention = make("local_monotonic", "additive")
    query, memory = random_tensor(3, 2, 4, seed=1), random_tensor(3, 5, 3, seed=2)
    place = np.array([[4, 0], [3, 1], [9, 9]], np.int32)
    found = attention(query, memory, mask_of(LENGTHS, 5), tf.constant(place))
    arrays = (query.numpy(), memory.numpy(), trainable(attention))
    close(found, expected("local_monotonic", "additive", *arrays, place=place))


def test_a_predicted_window_follows_the_query():
    """States that predict the ends of a source have their windows there."""
    attention = make("local_predictive", "general")
    attention.position_kernel.assign(np.eye(4) * 10.0)
    attention.position_vector.assign([10.0, 0.0, 0.0, 0.0])
    query = tf.constant([[[-1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]])
    mask = mask_of([9], 12)
    close(attention.predict(query, mask), np.array([[0.0, 4.5, 9.0]]), 1e-3)
    _, weights = attention(query, random_tensor(1, 12, 3, seed=2), mask)
    np.testing.assert_array_equal(spread(weights.numpy())[0], [[0, 2], [3, 6], [7, 8]])


def test_the_gaussian_has_half_the_window_as_its_deviation():
    attention = make("local_predictive", "general", window=4)
    attention.position_vector.assign(np.zeros(4))
    attention.score.kernel.assign(np.zeros((3, 4)))
    _, weights = attention(random_tensor(1, 1, 4), random_tensor(1, 20, 3), mask_of([20], 20))
    positions = np.arange(6, 15)
    wanted = np.exp(-((positions - 10) ** 2) / 8.0) / 9
    close(weights[0, 0, 6:15], wanted, 1e-6)


def test_gradients_reach_what_predicts_the_position():
    attention = make("local_predictive", "general")
    query, memory = random_tensor(3, 2, 4, seed=1), random_tensor(3, 5, 3, seed=2)
    with tf.GradientTape() as tape:
        context, _ = attention(query, memory, mask_of(LENGTHS, 5))
        loss = tf.reduce_sum(context**2)
    own = [attention.position_kernel.value, attention.position_vector.value]
    assert all(np.abs(gradient).max() > 1e-4 for gradient in tape.gradient(loss, own))


@pytest.mark.usefixtures("mixed_bfloat16")
def test_under_bfloat16_positions_past_what_it_can_count_are_told_apart():
    attention = make("local_monotonic", "general")
    query, memory = random_tensor(1, 1, 4, seed=1), random_tensor(1, 1001, 3, seed=2)
    _, weights = attention(query, memory, mask_of([1001], 1001), tf.constant([[997]]))
    np.testing.assert_array_equal(spread(weights.numpy())[0, 0], [995, 999])


def test_lengths_and_distances():
    mask = tf.constant([[True, True, False], [False, False, False], [False, True, False]])
    np.testing.assert_array_equal(source_lengths(mask), [2.0, 0.0, 2.0])
    np.testing.assert_array_equal(distances(mask, tf.ones([3, 1]))[0, 0], [-1.0, 0.0, 1.0])
    assert source_lengths(tf.zeros([2, 0], tf.bool)).numpy().tolist() == [0.0, 0.0]
