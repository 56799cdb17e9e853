import numpy as np
import pytest
import tensorflow as tf

from models.pooling import POOLINGS
from models.recurrent import RecurrentStack, last_states
from tests.models.examples import close, mask_of, random_tensor, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.summaries import summarize

LENGTHS = [3, 4, 1, 0]
every_kind = pytest.mark.parametrize("kind", POOLINGS)


def make(kind, **options):
    pooling = POOLINGS[kind](3, 5, units=2, **options)
    pooling.build()
    return randomize(pooling)


def inputs(positions=4):
    states = random_tensor(4, 4, 3, seed=1)
    last = random_tensor(4, 5, seed=2)
    padded = tf.pad(states, [[0, 0], [0, positions - 4], [0, 0]], constant_values=7.0)
    return padded, mask_of(LENGTHS, positions), last


def expected(kind, states, last, arrays):
    rows = [
        summarize(kind, states[row], length, last[row], arrays)
        for row, length in enumerate(LENGTHS)
    ]
    return np.array([vector for vector, _ in rows]), [weights for _, weights in rows]


@pytest.mark.usefixtures("float64")
@every_kind
@pytest.mark.parametrize("positions", [4, 7])
def test_forward_is_the_equation_and_what_stands_at_pads_changes_nothing(kind, positions):
    pooling = make(kind)
    states, mask, last = inputs(positions)
    found = pooling(states, mask, last)
    vectors, weights = expected(kind, states.numpy(), last.numpy(), pooling.get_weights())
    close(found.vectors, vectors)
    assert found.vectors.shape == (4, pooling.size)
    assert np.all(found.vectors[3] == 0.0)
    if kind == "attention":
        close(found.weights, np.array(weights))
    else:
        assert found.weights is None


@pytest.mark.usefixtures("float64")
@every_kind
def test_gradients_are_those_of_the_equation(kind):
    pooling = make(kind)
    states, mask, last = inputs()
    scales = random_tensor(4, pooling.size, seed=4)
    used = {"last": last} if kind == "last" else {"states": states}
    used["own"] = pooling.trainable_variables

    def loss():
        return tf.reduce_sum(pooling(states, mask, last).vectors * scales)

    def reference(arrays):
        given = {"states": states.numpy(), "last": last.numpy(), **arrays}
        vectors, _ = expected(kind, given["states"], given["last"], given["own"])
        return float((vectors * scales.numpy()).sum())

    assert_same_loss_and_gradients(loss, used, reference)


@every_kind
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(kind, dtype):
    exact, half = make(kind), make(kind, dtype=dtype)
    half.set_weights(exact.get_weights())
    states, mask, last = inputs()
    found = half(states, mask, last)
    assert found.vectors.dtype == half.compute_dtype
    np.testing.assert_allclose(
        tf.cast(found.vectors, tf.float32), exact(states, mask, last).vectors, atol=0.05
    )


def test_a_mean_of_many_states_is_as_exact_as_float32():
    pooling = POOLINGS["mean"](1, 1, dtype="mixed_float16")
    states = tf.ones([1, 4000, 1]) * 100.0  # Their sum is more than float16 holds.
    assert pooling(states, mask_of([4000], 4000), tf.zeros([1, 1])).vectors == 100.0


@every_kind
def test_a_layer_made_from_its_configuration_is_equal(kind):
    pooling = make(kind)
    again = type(pooling).from_config(pooling.get_config())
    again.build()
    assert again.get_config() == pooling.get_config()
    again.set_weights(pooling.get_weights())
    close(again(*inputs()).vectors, pooling(*inputs()).vectors, 1e-6)


@pytest.mark.parametrize("cell", ["lstm", "gru", "projected_lstm"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_last_states_stand_at_the_ends_of_the_rows(cell, bidirectional):
    stack = RecurrentStack(cell, 4, layers=2, bidirectional=bidirectional)
    stack.build((None, None, 3))
    states, mask, _ = inputs()
    outputs, final = stack(states, mask=mask)
    found = last_states(final)
    size = stack.hidden_size
    for row, length in enumerate(LENGTHS[:3]):
        close(found[row, :size], outputs[row, length - 1, :size])
        if bidirectional:
            close(found[row, size:], outputs[row, 0, size:])
