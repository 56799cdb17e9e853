import keras
import numpy as np
import pytest
import tensorflow as tf

from models.cells.kinds import CELLS
from models.errors import UserError
from models.recurrent import RecurrentStack
from tests.models.examples import close, mask_of, random_tensor, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.recurrent import run_stack

FEATURES, UNITS = 3, 2
LENGTHS = [3, 1, 4]
POSITIONS = 5

# Every other cell is held against its equations in cells/test_kinds.py.
every_cell = pytest.mark.parametrize("cell", ["lstm", "gru", "peephole_projected_lstm"])
fused = pytest.mark.parametrize("cell", ["lstm", "gru"])
every_shape = pytest.mark.parametrize(
    "shape",
    [
        {},
        {"bidirectional": True},
        {"layers": 3},
        {"layers": 2, "residual": True},
        {"layers": 3, "residual": True, "bidirectional": True},
        {"layers": 2, "residual": True, "bidirectional": True, "merge": "sum"},
    ],
    ids=["plain", "bidirectional", "deep", "residual", "deep-residual-bidirectional", "summed"],
)


def make(cell, **shape):
    stack = RecurrentStack(cell, UNITS, **shape)
    stack.build((None, None, FEATURES))
    return randomize(stack)


def inputs(lengths=LENGTHS, positions=POSITIONS):
    return random_tensor(len(lengths), positions, FEATURES), mask_of(lengths, positions)


def real(outputs, lengths=LENGTHS):
    """Outputs with whatever stands at pads made zero."""
    return np.where(mask_of(lengths, outputs.shape[1])[..., tf.newaxis], outputs, 0.0)


def states_in(finals):
    """All states of a stack, one after another."""
    return tf.nest.flatten([finals.forward, finals.backward or ()])


def expected(stack, arrays, lengths=LENGTHS, initial=None):
    options = (stack.bidirectional, stack.residual, initial, stack.merge)
    return run_stack(stack.cell_name, arrays["inputs"], lengths, arrays["weights"], *options)


@pytest.mark.usefixtures("float64")
@every_cell
@every_shape
def test_forward_is_the_equation(cell, shape):
    stack = make(cell, **shape)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    arrays = {"inputs": sequences.numpy(), "weights": stack.get_weights()}
    wanted, forward, backward = expected(stack, arrays)
    assert outputs.shape == (len(LENGTHS), POSITIONS, stack.output_size)
    close(real(outputs), wanted)
    close(finals.forward, tuple(forward))
    if stack.bidirectional:
        close(finals.backward, tuple(backward))
    else:
        assert finals.backward is None
    assert all(type(layer) is CELLS[cell].state for layer in finals.forward)


@pytest.mark.usefixtures("float64")
@every_cell
@every_shape
def test_gradients_are_those_of_the_equation(cell, shape):
    stack = make(cell, **shape)
    lengths = [2, 3]
    sequences, mask = inputs(lengths, 4)
    sides = real(random_tensor(2, 4, stack.output_size, seed=5), lengths)
    ends = random_tensor(4, 1, seed=6).numpy()

    def loss():
        outputs, finals = stack(sequences, mask=mask)
        tops = [*finals.forward[-1], *(finals.backward[-1] if stack.bidirectional else ())]
        moved = sum(tf.reduce_sum(part * end) for part, end in zip(tops, ends, strict=False))
        return tf.reduce_sum(tf.where(sides != 0.0, outputs * sides, 0.0)) + moved

    def reference(arrays):
        outputs, forward, backward = expected(stack, arrays, lengths)
        tops = [*forward[-1], *(backward[-1] if backward else ())]
        moved = sum((part * end).sum() for part, end in zip(tops, ends, strict=False))
        return (outputs * sides).sum() + moved

    variables = {"inputs": sequences, "weights": stack.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference)


@pytest.mark.usefixtures("float64")
@every_cell
def test_it_starts_from_the_states_given(cell):
    stack = make(cell, layers=2)
    sequences, _ = inputs()
    initial = tf.nest.map_structure(lambda part: part + 0.3, stack.first_state(len(LENGTHS)))
    outputs, finals = stack(sequences, initial_state=initial)
    arrays = {"inputs": sequences.numpy(), "weights": stack.get_weights()}
    first = tf.nest.map_structure(np.array, initial)
    wanted, forward, _ = expected(stack, arrays, [POSITIONS] * len(LENGTHS), first)
    close(outputs, wanted)
    close(finals.forward, tuple(forward))


@every_cell
@every_shape
def test_right_padding_and_what_stands_there_change_nothing(cell, shape):
    stack = make(cell, **shape)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    garbage = tf.where(mask[..., tf.newaxis], sequences, 50.0)
    longer = tf.pad(garbage, [[0, 0], [0, 3], [0, 0]], constant_values=-50.0)
    again, after = stack(longer, mask=mask_of(LENGTHS, POSITIONS + 3))
    close(real(again)[:, :POSITIONS], real(outputs), 1e-6)
    close(tuple(after), tuple(finals), 1e-6)


@every_cell
@every_shape
def test_a_row_gives_alone_what_it_gives_in_a_batch(cell, shape):
    stack = make(cell, **shape)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    for row, length in enumerate(LENGTHS):
        alone, after = stack(sequences[row : row + 1, :length])  # no pads, no mask
        close(alone[0], outputs[row, :length], 1e-6)
        for one, many in zip(states_in(after), states_in(finals), strict=True):
            close(one[0], many[row], 1e-6)


@every_cell
def test_a_row_of_pads_alone_ends_in_the_state_it_began_in(cell):
    stack = make(cell, bidirectional=True)
    sequences, mask = inputs([0, 3], POSITIONS)
    outputs, finals = stack(sequences, mask=mask)
    assert np.isfinite(outputs).all()
    for part in states_in(finals):
        assert not part[0].numpy().any() and part[1].numpy().any()


@every_cell
@pytest.mark.parametrize("shape", [{}, {"layers": 3, "residual": True}], ids=["one", "deep"])
def test_steps_give_what_the_whole_sequence_gives(cell, shape):
    stack = make(cell, **shape)
    sequences, _ = inputs()
    outputs, finals = stack(sequences)
    state = stack.first_state(len(LENGTHS))
    for position in range(POSITIONS):
        output, state = stack.step(sequences[:, position], state)
        close(output, outputs[:, position], 1e-6)
    close(state, finals.forward, 1e-6)


@every_cell
def test_a_batch_of_no_rows(cell):
    stack = make(cell, bidirectional=True, layers=2)
    run = tf.function(
        lambda sequences, mask: stack(sequences, mask=mask),
        input_signature=[
            tf.TensorSpec([None, None, FEATURES]),
            tf.TensorSpec([None, None], tf.bool),
        ],
    )
    outputs, finals = run(tf.zeros([0, 4, FEATURES]), tf.ones([0, 4], tf.bool))
    assert outputs.shape == (0, 4, stack.output_size)
    shapes = [part.shape for part in states_in(finals)]
    assert shapes == [(0, *shape) for shape in stack.state_shapes] * 4


def test_dropout_falls_between_layers_and_only_in_training():
    stack = make("lstm", layers=2, dropout=0.5)
    sequences, _ = inputs()
    still = stack(sequences)[0]
    close(stack(sequences)[0], still, 0.0)
    moved, finals = stack(sequences, training=True)
    assert np.abs(moved - still).max() > 1e-3
    # The lowest layer reads whole inputs: its states are those without dropout.
    close(finals.forward[0], stack(sequences)[1].forward[0], 0.0)
    alone = make("lstm", layers=1, dropout=0.5)
    close(alone(sequences, training=True)[0], alone(sequences)[0], 0.0)


def test_a_mask_is_not_handed_on():
    stack = make("lstm")
    sequences, mask = inputs()
    assert stack.compute_mask(sequences, mask) is None


@fused
def test_forget_gates_start_open(cell):
    stack = RecurrentStack(cell, UNITS)
    stack.build((None, None, FEATURES))
    bias = stack.get_weights()[2]
    if cell == "lstm":
        np.testing.assert_array_equal(bias, [0, 0, 1, 1, 0, 0, 0, 0])
    else:
        assert not bias.any()


@fused
def test_kernels_start_in_the_range_asked_for_and_differ(cell):
    stack = RecurrentStack(cell, 20, layers=2, bidirectional=True, initializer_range=0.02)
    stack.build((None, None, 40))
    kernels = [w for w in stack.get_weights() if w.ndim == 2 and len(w) in (20, 40)]
    assert len(kernels) == 8
    for kernel in kernels:
        assert 0.015 < np.abs(kernel).max() <= 0.02
    for index, kernel in enumerate(kernels):
        for other in kernels[:index]:
            assert kernel.shape != other.shape or (kernel != other).any()


@every_cell
@every_shape
def test_a_layer_made_from_its_configuration_is_equal(cell, shape):
    stack = make(cell, **shape, dropout=0.25)
    again = RecurrentStack.from_config(stack.get_config())
    again.build((None, None, FEATURES))
    again.set_weights(stack.get_weights())
    assert again.get_config() == stack.get_config()
    sequences, mask = inputs()
    close(again(sequences, mask=mask), stack(sequences, mask=mask), 0.0)


@pytest.mark.usefixtures("mixed_bfloat16")
@every_cell
def test_under_bfloat16_states_and_outputs_are_of_compute_dtype(cell):
    stack = make(cell, bidirectional=True, layers=2)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    for part in [outputs, *states_in(finals)]:
        assert part.dtype == tf.bfloat16
        assert np.isfinite(tf.cast(part, tf.float32)).all()
    assert all(part.dtype == tf.bfloat16 for part in tf.nest.flatten(stack.first_state(2)))
    assert all(weight.dtype == "float32" for weight in stack.trainable_variables)


def directions(layer):
    """The Keras layers of one layer of a stack, one a direction."""
    if isinstance(layer, keras.layers.Bidirectional):
        return [layer.forward_layer, layer.backward_layer]
    return [layer]


@fused
@every_shape
def test_every_layer_meets_the_conditions_of_the_fused_kernel(cell, shape):
    stack = make(cell, **shape, dropout=0.3)
    assert len(stack.layers) == shape.get("layers", 1)
    for layer in stack.layers:
        assert len(directions(layer)) == 1 + stack.bidirectional
        for one in directions(layer):
            assert isinstance(one, CELLS[cell].layer)
            assert one.use_cudnn in ("auto", True)
            assert one.activation is keras.activations.tanh
            assert one.recurrent_activation is keras.activations.sigmoid
            assert one.use_bias and not one.unroll
            assert not one.recurrent_dropout and not one.dropout
            assert cell == "lstm" or one.reset_after


def test_the_cells_are_keras_layers_with_keras_weights():
    assert issubclass(CELLS["lstm"].layer, keras.layers.LSTM)
    assert issubclass(CELLS["gru"].layer, keras.layers.GRU)


def test_a_merge_of_one_direction_or_of_another_name_is_refused():
    with pytest.raises(UserError, match=r"model\.encoder\.merge is 'sum', but .*bidirectional"):
        RecurrentStack("lstm", UNITS, merge="sum")
    with pytest.raises(UserError, match=r"model\.encoder\.merge: got 'mean', expected .*sum"):
        RecurrentStack("lstm", UNITS, bidirectional=True, merge="mean")
