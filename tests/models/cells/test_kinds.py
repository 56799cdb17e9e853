"""Every cell by itself and in layers, against its equations."""

import functools
import typing

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.cells.kinds import CELLS, state_shapes
from models.cells.options import CELL_OPTIONS, UNBRIDGEABLE
from models.recurrent import RecurrentStack
from pipeline.experiment import CellOptions, ModelSection
from tests.models.cells.cases import (
    DROPPED,
    FEATURES,
    LENGTHS,
    OURS,
    POSITIONS,
    ROWS,
    UNITS,
    each_of_ours,
    every_cell,
    every_merge,
    gradients_of,
    inputs,
    loss_of,
    make,
    real,
)
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.recurrent import STEPS, part_sizes, run_layer, run_stack


def test_all_lists_of_cells_are_the_same():
    """The layers, what they take, the keys of an experiment and the reference."""
    assert list(CELLS) == list(CELL_OPTIONS) == [*STEPS, "ntm"]  # held in test_memory.py
    assert tuple(CELLS) == typing.get_args(ModelSection.model_fields["cell"].annotation)
    known = {key for keys in CELL_OPTIONS.values() for key in keys}
    assert known == set(CellOptions.model_fields)


@every_cell
def test_a_state_has_its_names_and_sizes(cell):
    kind = CELLS[cell]
    sizes = [size for (size,) in state_shapes(cell, UNITS)]
    assert sizes == part_sizes(cell, UNITS)
    assert kind.state._fields == ("hidden", "memory")[: len(sizes)]
    assert cell not in UNBRIDGEABLE


@pytest.mark.usefixtures("float64")
@every_cell
def test_forward_is_the_equation(cell):
    layer = make(cell)
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    wanted, final = run_layer(cell, sequences.numpy(), LENGTHS, layer.get_weights())
    close(real(outputs), wanted)
    close(tuple(states), final)


@pytest.mark.usefixtures("float64")
@every_cell
def test_gradients_are_those_of_the_equation(cell):
    """Into inputs, first states and every weight."""
    lengths = [2, 3]
    layer = make(cell)
    sequences, mask = inputs(lengths, 4)
    first = [
        random_tensor(2, size, seed=7 + part) for part, size in enumerate(part_sizes(cell, UNITS))
    ]

    def reference(arrays):
        outputs, states = run_layer(
            cell, arrays["inputs"], lengths, arrays["weights"], initial=arrays["first"]
        )
        return (outputs**2).sum() + sum((state**3).sum() for state in states)

    variables = {"inputs": sequences, "first": first, "weights": layer.trainable_variables}
    loss = functools.partial(loss_of, layer, sequences, mask, initial_state=first)
    assert_same_loss_and_gradients(loss, variables, reference)


@pytest.mark.usefixtures("float64")
@every_cell
@every_merge
def test_both_directions_under_padding_are_the_equation(cell, merge):
    stack = RecurrentStack(cell, UNITS, 2, True, merge=merge)
    stack.build((None, None, FEATURES))
    randomize(stack)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    wanted, forward, backward = run_stack(
        cell, sequences.numpy(), LENGTHS, stack.get_weights(), True, merge=merge
    )
    assert outputs.shape[-1] == stack.output_size
    close(real(outputs), wanted)
    close((finals.forward, finals.backward), (tuple(forward), tuple(backward)))


@every_cell
def test_a_left_out_step_leaves_the_state_as_it_is_whatever_stands_there(cell):
    layer = make(cell)
    sequences, mask = inputs()
    garbage = tf.where(mask[..., tf.newaxis], sequences, 1e30)
    outputs, *states = layer(garbage, mask=mask)
    close(real(outputs), real(layer(sequences, mask=mask)[0]), 1e-6)
    for row, length in enumerate(LENGTHS):
        alone = layer(sequences[row : row + 1, :length])
        close([state[row] for state in states], [state[0] for state in alone[1:]], 1e-6)


@every_cell
def test_a_backward_layer_starts_at_the_last_real_step(cell):
    layer, back = make(cell), make(cell, go_backwards=True)
    sequences, mask = inputs()
    outputs, *states = back(sequences, mask=mask)
    turned = tf.reverse_sequence(sequences, LENGTHS, 1)
    wanted, *ends = layer(turned, mask=mask)
    close(states, ends, 1e-6)
    for row, length in enumerate(LENGTHS):
        close(outputs[row, POSITIONS - length :], wanted[row, :length], 1e-6)


@every_cell
def test_steps_give_what_the_whole_sequence_gives(cell):
    layer = make(cell)
    sequences, _ = inputs()
    outputs, *ends = layer(sequences)
    states = layer.get_initial_state(ROWS)
    for position in range(POSITIONS):
        output, states = layer.step(sequences[:, position], states)
        close(output, outputs[:, position], 1e-6)
    close(states, ends, 1e-6)


@each_of_ours
def test_a_cell_of_ours_works_in_a_plain_keras_layer(cell):
    layer = make(cell)
    plain = keras.layers.RNN(layer.cell, return_sequences=True, return_state=True)
    sequences, mask = inputs()
    close(gradients_of(plain, sequences, mask), gradients_of(layer, sequences, mask))
    close(plain(sequences, mask=mask), layer(sequences, mask=mask), 1e-6)


@every_cell
def test_a_layer_made_from_its_serialized_configuration_is_equal(cell):
    layer = make(cell, go_backwards=True, variational_dropout=DROPPED, name="reader")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is type(layer) and again.get_config() == layer.get_config()
    again.build((None, None, FEATURES))
    again.set_weights(layer.get_weights())
    sequences, mask = inputs()
    close(again(sequences, mask=mask), layer(sequences, mask=mask), 0.0)


@every_cell
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_under_half_precision_all_is_finite_and_weights_stay_float32(cell, policy, request):
    request.getfixturevalue(policy)
    layer = make(cell, variational_dropout=DROPPED)
    sequences, mask = inputs([0, *LENGTHS[1:]])
    for training in (False, True):
        for part in layer(sequences, mask=mask, training=training):
            assert part.dtype == layer.compute_dtype
            assert np.isfinite(tf.cast(part, tf.float32)).all()
        for gradient in gradients_of(layer, sequences, mask, training=training):
            assert np.isfinite(tf.cast(gradient, tf.float32)).all()
    assert all(weight.dtype == "float32" for weight in layer.weights)


@pytest.mark.parametrize("cell", ["simple_rnn", "gru_reset_before", *OURS])
def test_compiled_by_xla_outputs_and_gradients_are_the_same(cell):
    layer = make(cell)
    if hasattr(layer, "use_cudnn"):
        layer.use_cudnn = False
    compiled = tf.function(functools.partial(gradients_of, layer), jit_compile=True)
    close(compiled(*inputs()), gradients_of(layer, *inputs()))


@every_cell
def test_in_a_graph_sizes_may_be_unknown_and_there_may_be_no_rows(cell):
    layer = make(cell)
    specs = [tf.TensorSpec([None, None, FEATURES]), tf.TensorSpec([None, None], tf.bool)]
    run = tf.function(lambda sequences, mask: layer(sequences, mask=mask), input_signature=specs)
    close(run(*inputs()), layer(inputs()[0], mask=inputs()[1]), 1e-6)
    outputs, *states = run(tf.zeros([0, 4, FEATURES]), tf.ones([0, 4], tf.bool))
    sizes = part_sizes(cell, UNITS)
    assert outputs.shape == (0, 4, sizes[0])
    assert [state.shape for state in states] == [(0, size) for size in sizes]
