import numpy as np
import pytest
import tensorflow as tf

from models.recurrence import gru_recurrence, lstm_recurrence
from tests.models.examples import close
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.recurrent import gru_step, lstm_step

STEPS, ROWS, UNITS = 4, 3, 2
# Steps count from the end too, as they do where a sequence is read backwards.
MASK = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 1, 1]], np.float64)[..., np.newaxis]


def numbers(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape))


def lstm_arguments():
    return {
        "inputs": numbers(STEPS, ROWS, 4 * UNITS),
        "states": [numbers(ROWS, UNITS, seed=1), numbers(ROWS, UNITS, seed=2)],
        "weights": [numbers(UNITS, 4 * UNITS, seed=3)],
    }


def gru_arguments():
    return {
        "inputs": numbers(STEPS, ROWS, 3 * UNITS),
        "states": [numbers(ROWS, UNITS, seed=1)],
        "weights": [numbers(UNITS, 3 * UNITS, seed=3), numbers(3 * UNITS, seed=4)],
    }


def run(cell, given, mask=MASK):
    recurrence = {"lstm": lstm_recurrence, "gru": gru_recurrence}[cell]
    return recurrence(given["inputs"], *given["states"], tf.constant(mask), *given["weights"])


def reference(cell, given, mask=MASK):
    """Step by step; the input's share of the gates enters through an identity kernel."""
    state, hidden = tuple(given["states"]), []
    for share, real in zip(given["inputs"], mask, strict=True):
        identity = np.eye(share.shape[1])
        if cell == "lstm":
            after = lstm_step(share, state, (identity, given["weights"][0], 0.0))
        else:
            kernel, bias = given["weights"]
            after = gru_step(share, state, (identity, kernel, (np.zeros_like(bias), bias)))
        state = tuple(np.where(real, new, old) for new, old in zip(after, state, strict=True))
        hidden.append(state[0])
    return np.array(hidden), state


ARGUMENTS = {"lstm": lstm_arguments, "gru": gru_arguments}
every_cell = pytest.mark.parametrize("cell", ARGUMENTS)


@every_cell
def test_forward_is_the_equation_and_masked_steps_keep_the_state(cell):
    given = ARGUMENTS[cell]()
    found = run(cell, given)
    arrays = tf.nest.map_structure(np.array, given)
    close((found.hidden, found.last), reference(cell, arrays))


@every_cell
@pytest.mark.parametrize("whole", [True, False], ids=["all outputs", "last states"])
def test_gradients_are_those_of_the_equation(cell, whole):
    given = ARGUMENTS[cell]()
    sides = numbers(STEPS, ROWS, UNITS, seed=5).numpy()

    def weighed(hidden, last, total):
        if whole:
            return total(hidden * sides) + total(last[-1] * sides[0])
        return sum(total(part * side) for part, side in zip(last, sides, strict=False))

    def loss():
        found = run(cell, given)
        return weighed(found.hidden, found.last, tf.reduce_sum)

    def reference_loss(arrays):
        return weighed(*reference(cell, arrays), np.sum)

    assert_same_loss_and_gradients(loss, given, reference_loss)


@every_cell
def test_rows_without_a_real_step_keep_their_first_state(cell):
    given = ARGUMENTS[cell]()
    found = run(cell, given, MASK * np.array([1.0, 0.0, 1.0])[:, np.newaxis])
    for first, last in zip(given["states"], found.last, strict=True):
        np.testing.assert_array_equal(last[1], first[1])


@every_cell
def test_in_a_graph_of_unknown_sizes_and_under_xla_it_is_the_same(cell):
    given = ARGUMENTS[cell]()

    def outcome(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            found = run(cell, {**given, "inputs": inputs})
            total = tf.reduce_sum(found.hidden**2)
        return found.hidden, tape.gradient(total, inputs)

    eager = outcome(given["inputs"])
    spec = tf.TensorSpec([None, None, given["inputs"].shape[2]], tf.float64)
    close(tf.function(outcome, input_signature=[spec])(given["inputs"]), eager, 1e-9)
    close(tf.function(outcome, jit_compile=True)(given["inputs"]), eager, 1e-9)
