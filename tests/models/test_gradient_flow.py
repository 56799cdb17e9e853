"""Jacobians of recurrences against closed forms and finite differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.cells.kinds import CELLS, make_layer
from models.gradient_flow import CellFlow, bound_factor, measure
from models.keras_recurrent import GRU, LSTM
from models.recording import RecordedSequence
from tests.models.examples import make_model, random_ids, random_tensor, randomize, shifted
from tests.models.reference.gradients import STEP
from tests.models.reference.recurrent import STEPS as CELL_STEPS
from tests.models.reference.recurrent import run_row

LENGTH, FEATURES, UNITS = 6, 2, 3


def built(layer, scale=0.7):
    layer.build((None, None, FEATURES))
    return randomize(layer, scale=scale)


def simple(activation, kernel, length=LENGTH, scale=0.7):
    """A simple RNN with a given recurrent kernel, and a sequence for it."""
    layer = built(keras.layers.SimpleRNN(len(kernel), activation=activation), scale)
    layer.cell.recurrent_kernel.assign(kernel)
    return layer, sequence_of(layer, length)


def sequence_of(layer, length=LENGTH, seed=3):
    initial = layer.get_initial_state(batch_size=1)
    return RecordedSequence(layer, random_tensor(length, FEATURES, seed=seed), initial)


def flow(layer, sequence, longest=LENGTH):
    return CellFlow(layer.cell, sequence.initial_state).over(sequence, longest)


def random_kernel(units=UNITS, seed=4):
    return np.random.default_rng(seed).normal(size=(units, units))


def test_diagonal_linear_recurrence_is_the_power_of_its_largest_entry(float64):
    layer, sequence = simple("linear", np.diag([0.9, -0.5, 0.2]))
    expected = 0.9 ** np.arange(1, LENGTH + 1)
    found = flow(layer, sequence)
    np.testing.assert_allclose(found.hidden, expected, rtol=1e-12)
    np.testing.assert_allclose(found.state, expected, rtol=1e-12)
    assert bound_factor(layer.cell) == pytest.approx(0.9)


def test_linear_recurrence_is_the_norm_of_the_kernels_power(float64):
    kernel = random_kernel()
    layer, sequence = simple("linear", kernel)
    powers = [np.linalg.matrix_power(kernel, d) for d in range(1, 5)]
    expected = [np.linalg.norm(power, 2) for power in powers]
    np.testing.assert_allclose(flow(layer, sequence, longest=4).hidden, expected, rtol=1e-10)


def test_what_no_number_holds_ends_no_run(float64):
    """A flow that grows past all doubles, and one of a model that has broken."""
    found = flow(*simple("linear", np.diag([1e4, 1e4]), 90), longest=90)
    assert np.isfinite(found.hidden).all() and found.hidden[-1] > 1e300
    assert np.isnan(flow(*simple("linear", np.full((2, 2), np.nan))).hidden).all()


@pytest.mark.parametrize(
    ("activation", "function", "slope"),
    [
        ("tanh", np.tanh, lambda h: 1.0 - h**2),
        ("sigmoid", lambda a: 1.0 / (1.0 + np.exp(-a)), lambda h: h * (1.0 - h)),
        ("relu", lambda a: np.maximum(a, 0.0), lambda h: (h > 0.0) * 1.0),
    ],
)
def test_simple_recurrence_is_the_product_of_its_jacobians_and_keeps_the_bound(
    float64, activation, function, slope
):
    layer, sequence = simple(activation, random_kernel())
    kernel, recurrent, bias = (np.array(weight) for weight in layer.get_weights())
    states = [np.zeros(UNITS)]
    for inputs in sequence.inputs.numpy():
        states.append(function(inputs @ kernel + states[-1] @ recurrent + bias))
    product, expected = np.eye(UNITS), []
    for hidden in states[:0:-1]:
        product = product @ (slope(hidden)[:, np.newaxis] * recurrent.T)  # ∂h_t/∂h_(t-1)
        expected.append(np.linalg.norm(product, 2))
    found = flow(layer, sequence)
    np.testing.assert_allclose(found.hidden, expected, rtol=1e-10, atol=1e-300)
    bounds = bound_factor(layer.cell) ** np.arange(1, LENGTH + 1)
    assert (found.hidden <= bounds * (1 + 1e-9)).all()
    gamma = {"sigmoid": 0.25}.get(activation, 1.0)
    assert bounds[0] == pytest.approx(gamma * np.linalg.svd(recurrent)[1][0])


@pytest.mark.parametrize("make", [LSTM, lambda units: GRU(units, reset_after=True)])
def test_gated_cells_against_finite_differences_of_numpy(float64, make):
    layer = built(make(UNITS))
    cell = "lstm" if isinstance(layer, LSTM) else "gru"
    sequence = sequence_of(layer)
    weights = [np.array(weight) for weight in layer.get_weights()]
    inputs = sequence.inputs.numpy()
    parts = CELL_STEPS[cell][1]

    def last(state, since):
        """The whole state after the last step from the one before the step `since`."""
        split = tuple(np.split(state, parts))
        return np.concatenate(run_row(cell, inputs[since:], split, weights)[1])

    found = flow(layer, sequence)
    for distance in range(1, LENGTH + 1):
        since = LENGTH - distance
        zero = tuple(np.zeros(UNITS) for _ in range(parts))
        before = np.concatenate(run_row(cell, inputs[:since], zero, weights)[1])
        columns = [
            (last(before + shift, since) - last(before - shift, since)) / (2 * STEP)
            for shift in STEP * np.eye(parts * UNITS)
        ]
        jacobian = np.stack(columns, 1)  # [D, D]
        hidden = np.linalg.norm(jacobian[:UNITS, :UNITS], 2)
        np.testing.assert_allclose(found.hidden[distance - 1], hidden, rtol=1e-6)
        np.testing.assert_allclose(found.state[distance - 1], np.linalg.norm(jacobian, 2), 1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_against_finite_differences_of_its_own_steps(float64, cell):
    # Its usual memory has 2,560 numbers, and a Jacobian of as many rows.
    options = {"memory_rows": 4, "memory_features": 3} if cell == "ntm" else None
    layer = built(make_layer(cell, UNITS, options))
    sequence = sequence_of(layer)
    first = [np.array(part) for part in sequence.initial_state]

    def run(parts, inputs):
        for each in inputs.numpy():
            _, parts = layer.step(each[np.newaxis], parts)
        return [np.array(part) for part in parts]

    distance = 3
    middle = run(first, sequence.inputs[:-distance])
    columns = []
    for index, part in enumerate(middle):
        for place in np.ndindex(part.shape):
            ends = []
            for shift in (STEP, -STEP):
                moved = [each.copy() for each in middle]
                moved[index][place] += shift
                after = run(moved, sequence.inputs[-distance:])
                ends.append(np.concatenate([each.ravel() for each in after]))
            columns.append((ends[0] - ends[1]) / (2 * STEP))
    jacobian = np.stack(columns, 1)  # [D, D]
    found = flow(layer, sequence)
    assert len(found.state) == LENGTH
    hidden = first[0].size
    np.testing.assert_allclose(
        [found.hidden[distance - 1], found.state[distance - 1]],
        [np.linalg.norm(jacobian[:hidden, :hidden], 2), np.linalg.norm(jacobian, 2)],
        rtol=1e-5,
    )
    factor = bound_factor(layer.cell)
    assert (factor is not None) == (cell in ("simple_rnn", "weight_norm_rnn"))
    if factor is not None:
        assert (found.hidden <= factor ** np.arange(1, LENGTH + 1) * (1 + 1e-9)).all()


def test_what_vanishes_beyond_single_precision_is_measured_and_dead_units_give_zero():
    layer, sequence = simple("linear", np.eye(UNITS) * 1e-3, length=50)
    found = flow(layer, sequence, longest=50)
    np.testing.assert_allclose(found.hidden, 1e-3 ** np.arange(1.0, 51.0), rtol=1e-4)
    layer, sequence = simple("relu", np.eye(UNITS))
    layer.cell.bias.assign([-100.0] * UNITS)
    assert not flow(layer, sequence).hidden.any()


def example(source_length, target_length, seed=0):
    return {
        "source": random_ids([source_length], 8, seed),
        "target": shifted(random_ids([target_length], 8, seed + 1)),
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "luong",
            {
                "decoder/stack/lstm_0": [2, 2, 2, 1],
                "encoder/stack/bidirectional_0/backward_lstm_0": [2, 2, 1, 1],
                "encoder/stack/bidirectional_0/forward_lstm_0": [2, 2, 1, 1],
            },
        ),
        (
            "bahdanau",
            {
                "decoder/stack/lstm_0": [2, 2, 2, 1],
                "decoder/stack/lstm_1": [2, 2, 2, 1],
                "encoder/stack/lstm_0": [2, 2, 1, 1],
            },
        ),
    ],
)
def test_every_layer_of_a_model_is_measured_whether_it_loops_or_steps(name, expected):
    model = make_model(name)
    flows = measure(model, [example(2, 3), example(6, 5, 7)], longest=4)
    assert {each.name: each.sequences.tolist() for each in flows} == expected
    for each in flows:
        assert each.distances.tolist() == [1, 2, 3, 4]
        assert np.isfinite([each.hidden, each.state]).all() and each.bound is None
        assert (each.hidden <= each.state * (1 + 1e-6)).all()
    assert not [each for each in model._flatten_layers() if "call" in vars(each)]


def test_means_are_over_the_sequences_that_are_long_enough():
    model = make_model("luong")
    both = measure(model, [example(2, 3), example(6, 5, 7)], longest=9)
    one, other = (measure(model, [each], 9) for each in (example(2, 3), example(6, 5, 7)))
    for mean, short, long in zip(both, one, other, strict=True):
        shared = len(short.hidden)
        expected = np.concatenate([(short.hidden + long.hidden[:shared]) / 2, long.hidden[shared:]])
        np.testing.assert_allclose(mean.hidden, expected, rtol=1e-6)


def test_a_layer_that_reads_backwards_ends_at_the_first_word():
    """Its last state is then moved by the first word of the sentence, not by the last."""
    model = make_model("luong")
    words = random_ids([4], 8).numpy()

    def backwards(ids):
        inputs = {"source": tf.constant(ids), "target": example(1, 2)["target"]}
        flows = {each.name: each for each in measure(model, [inputs], longest=1)}
        return flows["encoder/stack/bidirectional_0/backward_lstm_0"].hidden[0]

    # One step back from the end of [a, b] read backwards is the step that reads a.
    layer = model.encoder.stack.layers[0].backward_layer
    embedded = model.encoder.embedding(words)[0]
    sequence = RecordedSequence(layer, embedded[::-1], layer.get_initial_state(batch_size=1))
    assert backwards(words) == pytest.approx(flow(layer, sequence, 1).hidden[0], rel=1e-5)


def test_decoders_are_measured_from_the_state_they_start_with():
    """The whole-sequence decoder of Luong and a step of its cell give one flow."""
    model = make_model("luong", encoder={"units": 2, "bidirectional": True, "layers": 1})
    inputs = example(3, 1)
    (found,) = [each for each in measure(model, [inputs], 5) if each.name.startswith("decoder")]
    _, state = model.decoder.prepare(model.encoder(inputs["source"]))
    first = [part[:, 0] for part in state.recurrent[0]]
    assert np.abs(first[0]).max() > 0
    embedded = model.decoder.embedding(inputs["target"])[0]
    layer = model.decoder.stack.layers[0]
    expected = flow(layer, RecordedSequence(layer, embedded, first), 5)
    np.testing.assert_allclose(found.hidden, expected.hidden, rtol=1e-5)


def test_half_precision_is_near(mixed_bfloat16):
    half = measure(make_model("luong"), [example(4, 4)], 4)
    keras.config.set_dtype_policy("float32")
    full = measure(make_model("luong"), [example(4, 4)], 4)
    for one, two in zip(half, full, strict=True):
        np.testing.assert_allclose(one.state, two.state, rtol=0.1)


def test_random_generators_stay_where_they_were():
    model = make_model("luong", dropout=0.5)
    model(example(2, 2), training=True)
    before = [np.array(each) for each in model.non_trainable_variables]
    assert before
    measure(model, [example(2, 2)], 2)
    for old, now in zip(before, model.non_trainable_variables, strict=True):
        np.testing.assert_array_equal(old, np.array(now))
