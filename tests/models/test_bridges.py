import functools

import numpy as np
import pytest
import tensorflow as tf

from models.bridges import BRIDGES, CopyBridge
from models.cells.kinds import CELLS
from models.errors import UserError
from models.recurrent import FinalStates
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference import bridges as reference
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.recurrent import STEPS, part_sizes

ROWS, UNITS, LAYERS = 3, 4, 2
SIDES = {"cell": "lstm", "units": UNITS, "layers": LAYERS, "encoder_layers": LAYERS}


def make(name, cell, bidirectional):
    """A built bridge; the encoder's width is such that a copy fits."""
    encoder_units = UNITS // 2 if bidirectional else UNITS
    options = {**SIDES, "cell": cell, "encoder_units": encoder_units}
    bridge = BRIDGES[name](**options, bidirectional=bidirectional)
    bridge.build()
    return randomize(bridge)


def side_of(bridge, shapes, seed):
    """Random states of all layers, of parts of some shapes."""
    layers = [
        [random_tensor(ROWS, *shape, seed=seed + 10 * layer + part)
         for part, shape in enumerate(shapes)]
        for layer in range(LAYERS)
    ]  # fmt: skip
    return tuple(bridge.state_type(*layer) for layer in layers)


def states_of(bridge, seed=0):
    """Random final states of the bridge's encoder."""
    side = functools.partial(side_of, bridge, bridge.encoder_shapes)
    return FinalStates(side(seed), side(seed + 100) if bridge.bidirectional else None)


def bridged(bridge, states):
    """What it makes of final states; the decoder by itself would start from zeros."""
    own = side_of(bridge, bridge.shapes, 0)
    return bridge(states, tf.nest.map_structure(tf.zeros_like, own))


def expected(name, bridge, states, weights):
    """What the reference makes of nested arrays (forward, backward)."""
    sizes = part_sizes(bridge.cell_name, UNITS)
    return reference.BRIDGES[name](*states, weights, LAYERS, sizes)


every_bridge = pytest.mark.parametrize("name", BRIDGES)
every_cell = pytest.mark.parametrize("cell", STEPS)
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
    found = bridged(bridge, states)
    assert all(type(layer) is CELLS[cell].state for layer in found)
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
    sides = [random_tensor(ROWS, 1, seed=i).numpy() for i in range(8)]

    def loss():
        parts = tf.nest.flatten(bridged(bridge, states))
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
def test_zero_leaves_the_decoder_its_own_first_state(cell, bidirectional):
    bridge = make("zero", cell, bidirectional)
    own = side_of(bridge, bridge.shapes, 5)
    close(bridge(states_of(bridge), own), own, 0.0)


@pytest.mark.usefixtures("mixed_bfloat16")
@every_bridge
@both_ways
def test_states_are_of_compute_dtype(name, bidirectional):
    bridge = make(name, "lstm", bidirectional)
    for part in tf.nest.flatten(bridged(bridge, states_of(bridge))):
        assert part.dtype == tf.bfloat16


@every_bridge
@every_cell
def test_a_layer_made_from_its_configuration_is_equal(name, cell):
    bridge = make(name, cell, True)
    again = type(bridge).from_config(bridge.get_config())
    again.build()
    again.set_weights(bridge.get_weights())
    assert again.get_config() == bridge.get_config()
    close(bridged(again, states_of(bridge)), bridged(bridge, states_of(bridge)), 0.0)


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


@pytest.mark.parametrize("name", ["copy", "dense"])
def test_a_projected_state_is_bridged_by_its_own_sizes(name):
    options = {**SIDES, "cell": "projected_lstm", "cell_options": {"projection_units": 3}}
    bridge = BRIDGES[name](**options, encoder_units=UNITS, bidirectional=False)
    bridge.build()
    assert bridge.shapes == bridge.encoder_shapes == [(3,), (UNITS,)]
    for layer in bridged(bridge, states_of(bridge)):
        assert (layer.hidden.shape, layer.memory.shape) == ((ROWS, 3), (ROWS, UNITS))
    with pytest.raises(UserError, match=r"'copy'.*layers of 6 and 8 units.* has 2 of 3 and 4"):
        CopyBridge(**options, encoder_units=UNITS, bidirectional=True)
