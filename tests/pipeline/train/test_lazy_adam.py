"""Lazy Adam against NumPy, and against Adam where the two are one."""

import keras
import numpy as np
import tensorflow as tf

from pipeline.train.lazy_adam import LazyAdam

RATE, FIRST, SECOND, EPSILON = 0.1, 0.9, 0.999, 1e-7
START = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
# Rows of each step, once each; row 3 comes once, row 4 never.
STEPS = [[0, 2], [1, 3], [2, 0], [2, 1]]


def gradient_of(step):
    rows = STEPS[step]
    values = np.random.default_rng(step + 1).normal(size=(len(rows), 2)).astype(np.float32)
    return rows, values


def run(optimizer, dense=False):
    """The table after all steps."""
    table = keras.Variable(START)
    optimizer.build([table])

    @tf.function
    def apply(rows, values):
        gradient = tf.IndexedSlices(values, rows, tf.constant(START.shape))
        optimizer.apply([tf.convert_to_tensor(gradient) if dense else gradient], [table])

    for step in range(len(STEPS)):
        apply(*map(tf.constant, gradient_of(step)))
    return table.numpy()


def lazy(weights):
    """The equations; a row not in the batch keeps its weights and moments."""
    weights = weights.astype(np.float64)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(len(STEPS)):
        for row, gradient in zip(*gradient_of(step), strict=True):
            first[row] = FIRST * first[row] + (1 - FIRST) * gradient
            second[row] = SECOND * second[row] + (1 - SECOND) * gradient**2
            rate = RATE * np.sqrt(1 - SECOND ** (step + 1)) / (1 - FIRST ** (step + 1))
            weights[row] -= rate * first[row] / (np.sqrt(second[row]) + EPSILON)
    return weights


def test_rows_follow_the_equations():
    found = run(LazyAdam(RATE))
    np.testing.assert_allclose(found, lazy(START), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found[4], START[4])


def test_it_differs_from_adam_by_the_stale_moments_alone(monkeypatch):
    """Adam moves row 3 after its only batch; where each row is in each batch both are one."""
    assert (
        np.abs(run(LazyAdam(RATE))[3] - run(keras.optimizers.Adam(RATE), dense=True)[3]).max()
        > 0.01
    )
    monkeypatch.setattr(f"{__name__}.STEPS", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 1, 4, 3]])
    np.testing.assert_allclose(
        run(LazyAdam(RATE)), run(keras.optimizers.Adam(RATE), dense=True), rtol=1e-5
    )


def test_dense_gradients_are_applied_as_adam_applies_them():
    np.testing.assert_array_equal(
        run(LazyAdam(RATE), dense=True), run(keras.optimizers.Adam(RATE), dense=True)
    )


def test_a_schedule_gives_the_rate():
    schedule = keras.optimizers.schedules.ExponentialDecay(RATE, 1, 1.0)
    np.testing.assert_array_equal(run(LazyAdam(schedule)), run(LazyAdam(RATE)))


def test_it_is_made_again_from_its_configuration():
    again = keras.optimizers.deserialize(keras.optimizers.serialize(LazyAdam(RATE, beta_1=0.5)))
    assert isinstance(again, LazyAdam) and again.beta_1 == 0.5
