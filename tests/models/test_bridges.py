import numpy as np
import pytest
import tensorflow as tf

from models.bridges import BRIDGES, CopyBridge
from models.errors import UserError
from models.recurrent import CELLS, FinalStates
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference import bridges as reference
from tests.models.reference.gradients import assert_same_loss_and_gradients

ROWS, UNITS, LAYERS = 3, 4, 2
SIDES = {"cell": "lstm", "units": UNITS, "layers": LAYERS, "encoder_layers": LAYERS}


def make(name, cell, bidirectional):
    """A built bridge; the encoder's width is such that a copy fits."""
    encoder_units = UNITS // 2 if bidirectional else UNITS
    options = {**SIDES, "cell": cell, "encoder_units": encoder_units}
    bridge = BRIDGES[name](**options, bidirectional=bidirectional)
    bridge.build()
    return randomize(bridge)


def states_of(bridge, seed=0):
    """Random final states of the bridge's encoder."""

    def side(seed):
        parts = len(bridge.state_type._fields)
        layers = [
            [random_tensor(ROWS, bridge.encoder_units, seed=seed + 10 * layer + part)
             for part in range(parts)]
            for layer in range(LAYERS)
        ]  # fmt: skip
        return tuple(bridge.state_type(*layer) for layer in layers)

    return FinalStates(side(seed), side(seed + 100) if bridge.bidirectional else None)


def expected(name, bridge, states, weights):
    """What the reference makes of nested arrays (forward, backward)."""
    parts = len(bridge.state_type._fields)
    return reference.BRIDGES[name](*states, weights, LAYERS, UNITS, parts)


every_bridge = pytest.mark.parametrize("name", BRIDGES)
every_cell = pytest.mark.parametrize("cell", CELLS)
both_ways = pytest.mark.parametrize("bidirectional", [False, True])


def test_the_reference_covers_every_member():
    assert reference.BRIDGES.keys() == BRIDGES.keys()


@pytest.mark.usefixtures("float64")
@every_bridge
@every_cell
@both_ways
def test_forward_is_the_equation(name, cell, bidirectional):
    bridge = make(name, cell, bidirectional)
    states = states_of(bridge)
    found = bridge(states)
    assert all(type(layer) is CELLS[cell][1] for layer in found)
    arrays = tf.nest.map_structure(np.array, tuple(states))
    close(found, tuple(expected(name, bridge, arrays, bridge.get_weights())))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", ["copy", "dense"])
@every_cell
@both_ways
def test_gradients_are_those_of_the_equation(name, cell, bidirectional):
    bridge = make(name, cell, bidirectional)
    states = states_of(bridge)
    used = states if name == "copy" else (states.backward or states.forward)[-1].hidden
    sides = [random_tensor(ROWS, UNITS, seed=i).numpy() for i in range(8)]

    def loss():
        parts = tf.nest.flatten(bridge(states))
        return sum(tf.reduce_sum(part * side) for part, side in zip(parts, sides, strict=False))

    def reference_loss(arrays):
        given = arrays["states"]
        if name == "dense":  # the topmost hidden state alone is read
            given = (None, [[given]]) if bidirectional else ([[given]], None)
        parts = tf.nest.flatten(expected(name, bridge, given, arrays["weights"]))
        return sum((part * side).sum() for part, side in zip(parts, sides, strict=False))

    variables = {"states": used, "weights": bridge.trainable_variables}
    if name == "copy" and not bidirectional:
        variables["states"] = (states.forward, ())
    assert_same_loss_and_gradients(loss, variables, reference_loss)


@every_cell
@both_ways
def test_zero_reads_nothing_but_the_number_of_rows(cell, bidirectional):
    bridge = make("zero", cell, bidirectional)
    first = tf.nest.flatten(bridge(states_of(bridge)))
    assert len(first) == LAYERS * len(CELLS[cell][1]._fields)
    for part in first:
        assert part.shape == (ROWS, UNITS) and not part.numpy().any()


@pytest.mark.usefixtures("mixed_bfloat16")
@every_bridge
@both_ways
def test_states_are_of_compute_dtype(name, bidirectional):
    bridge = make(name, "lstm", bidirectional)
    for part in tf.nest.flatten(bridge(states_of(bridge))):
        assert part.dtype == tf.bfloat16


@every_bridge
@every_cell
def test_a_layer_made_from_its_configuration_is_equal(name, cell):
    bridge = make(name, cell, True)
    again = type(bridge).from_config(bridge.get_config())
    again.build()
    again.set_weights(bridge.get_weights())
    assert again.get_config() == bridge.get_config()
    close(again(states_of(bridge)), bridge(states_of(bridge)), 0.0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"encoder_units": 3}, "2 layers of 3 units, but the decoder has 2 of 4"),
        ({"encoder_layers": 1}, "1 layers of 4 units, but the decoder has 2 of 4"),
        ({"bidirectional": True}, "2 layers of 8 units, but the decoder has 2 of 4"),
    ],
)
def test_a_copy_that_does_not_fit_is_refused_by_the_name_of_its_key(change, told):
    options = {**SIDES, "encoder_units": UNITS, "bidirectional": False, **change}
    with pytest.raises(UserError, match=rf"model\.decoder\.bridge 'copy'.*{told}.*'dense'"):
        CopyBridge(**options)
