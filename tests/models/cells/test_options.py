"""What cells can be told, and how their weights start."""

import numpy as np
import pytest

from models.cells.kinds import CELLS, make_layer
from models.cells.options import CELL_OPTIONS
from models.errors import UserError
from models.recurrent import RecurrentStack
from pipeline.experiment import ModelSection
from tests.models.cells.cases import (
    FEATURES,
    LENGTHS,
    UNITS,
    every_cell,
    every_simple_cell,
    inputs,
    make,
    real,
)
from tests.models.examples import close
from tests.models.reference.recurrent import run_layer


@pytest.mark.usefixtures("float64")
@every_simple_cell
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_other_activations_are_the_equation(cell, activation):
    layer = make(cell, {"activation": activation})
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    wanted, final = run_layer(
        cell,
        sequences.numpy(),
        LENGTHS,
        layer.get_weights(),
        options={"activation": activation},
    )
    close(real(outputs), wanted)
    close(tuple(states), final)


@every_simple_cell
def test_recurrent_kernels_start_as_they_are_told(cell):
    def kernel(name):
        layer = make_layer(cell, UNITS, {"recurrent_initializer": name}, 0.05)
        layer.build((None, None, FEATURES))
        return np.array(layer.cell.recurrent_kernel)

    close(kernel("identity"), np.eye(UNITS), 0.0)
    orthogonal = kernel("orthogonal")
    close(orthogonal @ orthogonal.T, np.eye(UNITS), 1e-5)
    assert np.abs(kernel("uniform")).max() <= 0.05 and np.abs(kernel(None)).max() <= 0.05


@pytest.mark.parametrize("cell", ["projected_lstm", "peephole_projected_lstm"])
def test_a_projection_is_as_wide_as_it_is_told(cell):
    stack = RecurrentStack(cell, UNITS, bidirectional=True, cell_options={"projection_units": 3})
    assert stack.hidden_size == 3 and stack.output_size == 6
    assert stack.state_shapes == [(3,), (UNITS,)]
    assert [state.hidden.shape[1] for state in stack.first_state(2)] == [3]


@every_cell
def test_an_option_that_a_cell_does_not_take_is_refused_by_the_name_of_its_key(cell):
    values = {"activation": "relu", "recurrent_initializer": "orthogonal", "projection_units": 2}
    for key, value in {**values, "memory_rows": 5}.items():
        if key in CELL_OPTIONS[cell]:
            make_layer(cell, UNITS, {key: value})
            continue
        with pytest.raises(UserError, match=rf"model\.cell_options\.{key} .*'{cell}'.*remove"):
            make_layer(cell, UNITS, {key: value})
        with pytest.raises(ValueError, match=rf"model\.cell_options\.{key}"):
            ModelSection(cell=cell, cell_options={key: value})
    make_layer(cell, UNITS, dict.fromkeys(values))


def test_unknown_names_and_values_are_refused():
    with pytest.raises(UserError, match=r"model\.cell: got 'rnn', expected one of simple_rnn"):
        make_layer("rnn", UNITS)
    with pytest.raises(UserError, match=r"model\.cell_options\.activation: got 'elu', expected"):
        make_layer("simple_rnn", UNITS, {"activation": "elu"})
    with pytest.raises(UserError, match=r"model\.cell_options\.units is 3.*no cell knows it"):
        make_layer("simple_rnn", UNITS, {"units": 3})


# How weights start.


@every_cell
def test_kernels_start_in_the_range_asked_for_and_forget_gates_open(cell):
    layer = make_layer(cell, 20, initializer_range=0.02)
    layer.build((None, None, 40))
    weights = {weight.path.rsplit("/", 1)[1]: weight.numpy() for weight in layer.weights}
    for name, weight in weights.items():
        if name.endswith("kernel") or name == "peephole_weights":
            assert 0.015 < np.abs(weight).max() <= 0.02, name
        elif "bias" in name or "shift" in name:
            opened = cell.endswith("lstm") and name in ("bias", "input_shift")
            wanted = np.repeat([0.0, float(opened), 0.0, 0.0], weight.size // 4)
            if opened:
                np.testing.assert_array_equal(weight, wanted)
            else:
                assert not weight.any(), name
        elif cell.startswith("layer_norm"):
            assert (weight == 1.0).all(), name
    drawn = [w.ravel()[:20] for n, w in weights.items() if n.endswith("kernel") or "peep" in n]
    assert len({tuple(each) for each in drawn}) == len(drawn)


@pytest.mark.parametrize("cell", [name for name in CELLS if name.startswith("weight_norm")])
def test_a_normalized_kernel_starts_as_the_initializer_gives_it(cell):
    layer = make_layer(cell, UNITS)
    layer.build((None, None, FEATURES))
    own = layer.cell
    close(own.constants()["recurrent_kernel"], own.recurrent_kernel.numpy(), 1e-6)
    own.recurrent_kernel.assign(7.0 * own.recurrent_kernel)  # a direction has no length
    lengths = np.linalg.norm(own.constants()["recurrent_kernel"], axis=0)
    close(lengths, own.recurrent_gain.numpy(), 1e-6)
