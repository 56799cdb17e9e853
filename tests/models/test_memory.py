"""The Neural Turing Machine against its equations."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.addressing import HeadParameters, address, shift, write
from models.errors import UserError
from models.memory import CONTROLLERS, FIRST_MEMORY, NTMCell, NTMState
from tests.models.examples import close, mask_of, random_tensor, randomize
from tests.models.reference import memory as reference
from tests.models.reference.gradients import assert_same_loss_and_gradients

FEATURES, UNITS = 3, 4
LENGTHS = [3, 1, 4]
POSITIONS = 5

# Memories of sizes all different, with one head and with several of each kind.
SHAPES = {
    "lstm": {"memory_rows": 5, "memory_features": 2},
    "dense": {"memory_rows": 5, "memory_features": 2, "controller": "dense"},
    "many heads": {
        "memory_rows": 6,
        "memory_features": 3,
        "read_heads": 3,
        "write_heads": 2,
        "shift_range": 2,
    },
    "unmoving": {"memory_rows": 3, "memory_features": 2, "shift_range": 0},
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def make(shape, **settings):
    """A layer of one cell with random weights."""
    cell = NTMCell(UNITS, **shape)
    settings = {"return_sequences": True, "return_state": True, **settings}
    layer = keras.layers.RNN(cell, **settings)
    layer.build((None, None, FEATURES))
    return randomize(layer, scale=0.8)


def inputs(lengths=LENGTHS, positions=POSITIONS):
    return random_tensor(len(lengths), positions, FEATURES), mask_of(lengths, positions)


def real(outputs, lengths=LENGTHS):
    """Outputs with whatever stands at pads made zero."""
    return np.where(mask_of(lengths, outputs.shape[1])[..., tf.newaxis], outputs, 0.0)


def sizes_of(cell):
    heads = (cell.read_heads, cell.write_heads, cell.shift_range)
    return reference.Sizes(cell.memory_rows, cell.memory_features, *heads, cell.controller)


def run_eagerly(layer, sequences, states):
    """Outputs and states by calling the cell once a step."""
    outputs = []
    for position in range(sequences.shape[1]):
        output, states = layer.cell(sequences[:, position], states)
        outputs.append(output)
    return tf.stack(outputs, 1), states


@pytest.mark.usefixtures("float64")
@every_shape
def test_forward_is_the_equation(shape):
    layer = make(shape)
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    wanted, finals = reference.run_ntm(
        sequences.numpy(), LENGTHS, layer.get_weights(), sizes_of(layer.cell)
    )
    assert outputs.shape == (len(LENGTHS), POSITIONS, UNITS)
    close(real(outputs), wanted)
    close(states, finals)


@pytest.mark.usefixtures("float64")
@every_shape
def test_gradients_are_those_of_the_equation(shape):
    layer = make(shape)
    lengths = [2, 3]
    sequences, mask = inputs(lengths, 3)
    sides = real(random_tensor(2, 3, UNITS, seed=5), lengths)
    shapes = [(2, *np.atleast_1d(size)) for size in layer.cell.state_size]
    ends = [random_tensor(*each, seed=6).numpy() for each in shapes]

    def weighed(outputs, states, total):
        moved = sum(total(part * end) for part, end in zip(states, ends, strict=True))
        return total(outputs * sides) + moved

    def loss():
        outputs, *states = layer(sequences, mask=mask)
        return weighed(tf.where(sides != 0.0, outputs, 0.0), states, tf.reduce_sum)

    def reference_loss(arrays):
        found = reference.run_ntm(
            arrays["inputs"], lengths, arrays["weights"], sizes_of(layer.cell)
        )
        return weighed(*found, np.sum)

    variables = {"inputs": sequences, "weights": layer.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference_loss)


@pytest.mark.usefixtures("float64")
def test_it_starts_from_the_states_given_and_masked_steps_keep_all_of_them():
    layer = make(SHAPES["many heads"])
    sequences, _ = inputs()
    initial = [part + 0.1 for part in layer.get_initial_state(len(LENGTHS))]
    mask = tf.constant([[True, False, True, False, True]] * 3)
    _, *states = layer(sequences, mask=mask, initial_state=initial)
    _, wanted = run_eagerly(layer, sequences[:, ::2], initial)
    close(states, list(wanted), 1e-9)
    _, *unmoved = layer(sequences, mask=tf.zeros_like(mask), initial_state=initial)
    close(unmoved, initial, 0.0)


@every_shape
def test_right_padding_and_what_stands_there_change_nothing(shape):
    layer = make(shape)
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    garbage = tf.where(mask[..., tf.newaxis], sequences, 50.0)
    longer = tf.pad(garbage, [[0, 0], [0, 2], [0, 0]], constant_values=-50.0)
    again, *after = layer(longer, mask=mask_of(LENGTHS, POSITIONS + 2))
    close(real(again)[:, :POSITIONS], real(outputs), 1e-6)
    close(after, states, 1e-6)


@every_shape
def test_steps_give_what_the_whole_sequence_gives(shape):
    layer = make(shape)
    sequences, _ = inputs()
    outputs, *states = layer(sequences)
    found, after = run_eagerly(layer, sequences, layer.get_initial_state(len(LENGTHS)))
    assert type(after) is NTMState
    close(found, outputs, 1e-6)
    close(list(after), states, 1e-6)


@every_shape
def test_state_and_output_are_of_the_sizes_promised(shape):
    layer = make(shape)
    cell = layer.cell
    first = cell.get_initial_state(batch_size=2)
    output, after = cell(random_tensor(2, FEATURES), first)
    assert output.shape == (2, cell.output_size) == (2, UNITS)
    for part, later, size in zip(first, after, cell.state_size, strict=True):
        assert part.shape == later.shape == (2, *np.atleast_1d(size))


def test_the_first_state():
    cell = NTMCell(UNITS, memory_rows=16, memory_features=3)
    cell.build((None, FEATURES))
    first = cell.get_initial_state(batch_size=2)
    assert not first.hidden.numpy().any() and not first.carry.numpy().any()
    np.testing.assert_allclose(first.memory, FIRST_MEMORY)
    close(tf.reduce_sum(first.weights, -1), np.ones((2, 2)), 1e-6)
    assert (first.weights[:, :, 0] > 0.95).numpy().all()
    # The others are not out of a gradient's reach.
    assert (first.weights > 1e-4).numpy().all()


def test_weights_are_distributions():
    layer = make(SHAPES["many heads"])
    _, *states = layer(50.0 * inputs()[0])
    weights = NTMState(*states).weights
    close(tf.reduce_sum(weights, -1), np.ones(weights.shape[:2]), 1e-5)
    assert (weights >= 0.0).numpy().all()


def parameters(**given):
    """Parameters of one head that stays where it is, unless told otherwise."""
    told = {
        "keys": [1.0, 0.0],
        "strengths": [0.0],
        "gates": [0.0],
        "shifts": [0.0, 1.0, 0.0],
        "sharpness": [1.0],
        "erasures": [0.0, 0.0],
        "additions": [0.0, 0.0],
        **given,
    }
    return HeadParameters(**{key: tf.constant([[value]]) for key, value in told.items()})


ROWS = tf.constant([[[0.0, 2.0], [3.0, 0.0], [0.0, -1.0], [1.0, 1.0]]])
PLACE = tf.constant([[[0.1, 0.2, 0.3, 0.4]]])


def test_a_closed_gate_keeps_the_place_whatever_the_content():
    close(address(parameters(strengths=[90.0]), ROWS, PLACE), PLACE, 1e-6)


def test_an_open_gate_and_a_strong_key_find_the_row_most_alike():
    found = address(parameters(strengths=[90.0], gates=[1.0]), ROWS, PLACE)
    close(found, np.array([[[0.0, 1.0, 0.0, 0.0]]]), 1e-6)
    weak = address(parameters(strengths=[0.0], gates=[1.0]), ROWS, PLACE)
    close(weak, np.full((1, 1, 4), 0.25), 1e-6)


@pytest.mark.parametrize(
    ("shifts", "wanted"),
    [
        ([1.0, 0.0, 0.0], [0.2, 0.3, 0.4, 0.1]),  # one row back, and round the end
        ([0.0, 1.0, 0.0], [0.1, 0.2, 0.3, 0.4]),
        ([0.0, 0.0, 1.0], [0.4, 0.1, 0.2, 0.3]),  # one row on
        ([0.0, 0.5, 0.5], [0.25, 0.15, 0.25, 0.35]),
    ],
)
def test_shifts_go_round(shifts, wanted):
    close(address(parameters(shifts=shifts), ROWS, PLACE), np.array([[wanted]]), 1e-6)


@pytest.mark.parametrize(("rows", "reach"), itertools.product([5, 8], [0, 1, 2]))
def test_a_shift_is_the_sum_of_rolls(rows, reach):
    weights = random_tensor(2, 3, rows)
    shifts = random_tensor(2, 3, 2 * reach + 1, seed=1)
    wanted = sum(
        np.roll(weights, distance, -1) * shifts[..., distance + reach, np.newaxis]
        for distance in range(-reach, reach + 1)
    )
    close(shift(weights, shifts), wanted, 1e-6)


def test_sharpening_does_not_run_out_of_numbers():
    rows = 4000
    flat = tf.fill([1, 1, rows], 1.0 / rows)
    memory = tf.ones([1, rows, 2])
    for sharpness in (1.0, 50.0):  # 4000 ** -50 is zero in float32
        close(address(parameters(sharpness=[sharpness]), memory, flat), flat, 1e-6)
    found = address(parameters(sharpness=[2.0]), ROWS, PLACE)
    close(found, np.array([[[1.0, 4.0, 9.0, 16.0]]]) / 30.0, 1e-6)


def test_gradients_are_finite_where_weights_keys_and_rows_are_zero():
    place = tf.constant([[[1.0, 0.0, 0.0, 0.0]]])
    memory, told = tf.zeros([1, 4, 2]), parameters(keys=[0.0, 0.0], sharpness=[3.0])
    with tf.GradientTape() as tape:
        tape.watch([place, memory, *told])
        loss = tf.reduce_sum(address(told, memory, place) ** 2)
    found = tape.gradient(loss, [place, memory, *told[:5]])
    assert all(np.isfinite(each).all() for each in found)


def test_writing_erases_then_adds():
    memory = tf.constant([[[1.0, 2.0], [3.0, 4.0]]])
    weights = tf.constant([[[1.0, 0.0], [0.5, 0.5]]])
    erasures = tf.constant([[[1.0, 0.0], [0.0, 1.0]]])
    additions = tf.constant([[[10.0, 0.0], [0.0, 20.0]]])
    wanted = np.array([[[10.0, 1.0 + 10.0], [3.0, 2.0 + 10.0]]])
    close(write(memory, weights, erasures, additions), wanted, 1e-6)


def outcome_of(layer):
    """A function of sequences and a mask: outputs, states and a gradient of them all."""

    def outcome(sequences, mask):
        with tf.GradientTape() as tape:
            outputs, *states = layer(sequences, mask=mask)
            loss = tf.reduce_sum(tf.where(mask[..., tf.newaxis], outputs, 0.0) ** 2)
            loss += sum(tf.reduce_sum(part**3) for part in states)
        return [outputs, *states, *tape.gradient(loss, layer.cell.trainable_variables)]

    return outcome


@pytest.mark.usefixtures("float64")
def test_in_a_graph_of_unknown_sizes_and_under_xla_it_is_the_same():
    layer = make(SHAPES["many heads"])
    outcome = outcome_of(layer)
    eager = outcome(*inputs())
    signature = [
        tf.TensorSpec([None, None, FEATURES], tf.float64),
        tf.TensorSpec([None, None], tf.bool),
    ]
    close(tf.function(outcome, input_signature=signature)(*inputs()), eager, 1e-9)
    close(tf.function(outcome, jit_compile=True)(*inputs()), eager, 1e-9)


def test_a_batch_of_no_rows():
    layer = make(SHAPES["many heads"])
    run = tf.function(layer, input_signature=[tf.TensorSpec([None, None, FEATURES])])
    outputs, *states = run(tf.zeros([0, 4, FEATURES]))
    assert outputs.shape == (0, 4, UNITS)
    assert all(part.shape[0] == 0 for part in states)


@every_shape
def test_a_layer_made_from_its_configuration_is_equal(shape):
    layer = make(shape)
    again = keras.layers.RNN.from_config(layer.get_config())
    again.build((None, None, FEATURES))
    again.set_weights(layer.get_weights())
    assert again.get_config() == layer.get_config()
    sequences, mask = inputs()
    close(again(sequences, mask=mask), layer(sequences, mask=mask), 0.0)


def test_a_model_that_was_saved_and_loaded_is_equal(tmp_path):
    model = keras.Sequential([make(SHAPES["dense"], return_state=False), keras.layers.Dense(2)])
    sequences, _ = inputs()
    before = model(sequences)
    model.save(tmp_path / "model.keras")
    close(keras.models.load_model(tmp_path / "model.keras")(sequences), before, 0.0)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@every_shape
def test_in_half_precision_states_are_of_compute_dtype_and_places_of_float32(
    policy, shape, request
):
    whole = make(shape)
    request.getfixturevalue(policy)
    layer = make(shape)
    layer.set_weights(whole.get_weights())
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    compute = keras.config.dtype_policy().compute_dtype
    for part in [outputs, *states, *layer.get_initial_state(2)]:
        assert part.dtype == compute
        assert np.isfinite(tf.cast(part, tf.float32)).all()
    assert all(weight.dtype == "float32" for weight in layer.trainable_variables)
    weights = tf.cast(NTMState(*states).weights, tf.float32)  # [B, K, N]
    tolerance = 2.0 ** -(8 if policy == "mixed_bfloat16" else 11)
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), 1.0, atol=tolerance)
    found = outcome_of(layer)(sequences, mask)
    assert all(np.isfinite(tf.cast(each, tf.float32)).all() for each in found)
    exact, *_ = whole(tf.cast(sequences, tf.float32), mask=mask)
    assert np.abs(real(tf.cast(outputs, tf.float32)) - real(exact)).max() < 0.2


def test_initializers_reach_their_parts_of_the_kernels():
    cell = NTMCell(
        20,
        memory_rows=6,
        memory_features=5,
        kernel_initializer=keras.initializers.RandomUniform(-0.02, 0.02),
        recurrent_initializer=keras.initializers.RandomUniform(-0.5, 0.5),
    )
    cell.build((None, 7))
    kernel, bias, heads, _, output, *_ = cell.get_weights()
    for part in (kernel[:12], heads, output):
        assert 0.015 < np.abs(part).max() <= 0.02
    assert 0.4 < np.abs(kernel[12:]).max() <= 0.5
    assert (heads[:, :20] != output[:20]).any()
    np.testing.assert_array_equal(bias, np.repeat([0.0, 1.0, 0.0, 0.0], 20))


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_weight_gets_a_gradient_as_it_starts(controller):
    layer = keras.layers.RNN(NTMCell(UNITS, 8, 3, controller=controller), return_sequences=True)
    sequences, _ = inputs()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((layer(sequences) - 1.0) ** 2)
    found = tape.gradient(loss, layer.trainable_variables)
    for variable, gradient in zip(layer.trainable_variables, found, strict=True):
        assert np.abs(gradient).max() > 0.0, variable.path


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"controller": "gru"}, ["controller", "'gru'", "lstm, dense"]),
        ({"read_heads": 0}, ["read_heads 0", "1 of each"]),
        ({"write_heads": 0}, ["write_heads 0", "1 of each"]),
        ({"memory_rows": 4, "shift_range": 2}, ["shift_range", "got 2", "0 to 1", "memory_rows 4"]),
        ({"shift_range": -1}, ["shift_range", "got -1"]),
    ],
)
def test_what_cannot_be_is_refused(given, told):
    with pytest.raises(UserError) as error:
        NTMCell(UNITS, **given)
    for each in told:
        assert each in str(error.value)
