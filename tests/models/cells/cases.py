"""Every cell there is, small, for the tests that hold for all."""

import numpy as np
import pytest
import tensorflow as tf

from models.cells.kinds import CELLS, make_layer
from tests.models.examples import mask_of, random_tensor, randomize
from tests.models.reference.recurrent import STEPS

FEATURES, UNITS = 3, 4
LENGTHS = [3, 1, 4]
ROWS, POSITIONS = len(LENGTHS), 5
DROPPED = {"inputs": 0.4, "recurrent": 0.5}

SIMPLE = [name for name in CELLS if name.endswith("_rnn")]
OURS = [name for name in STEPS if CELLS[name].cell is not None]
NTM = {"cell": "ntm", "cell_options": {"memory_rows": 5, "memory_features": 2, "read_heads": 2}}

every_cell = pytest.mark.parametrize("cell", STEPS)
each_of_ours = pytest.mark.parametrize("cell", OURS)
every_simple_cell = pytest.mark.parametrize("cell", SIMPLE)
every_merge = pytest.mark.parametrize("merge", ["concat", "sum"])


def make(cell, options=None, **settings):
    """A built layer of one direction with random weights."""
    settings = {"return_sequences": True, "return_state": True, **settings}
    layer = make_layer(cell, UNITS, options, **settings)
    layer.build((None, None, FEATURES))
    return randomize(layer)


def inputs(lengths=LENGTHS, positions=POSITIONS):
    return random_tensor(len(lengths), positions, FEATURES), mask_of(lengths, positions)


def real(outputs, lengths=LENGTHS):
    """Outputs with whatever stands at pads made zero."""
    return np.where(mask_of(lengths, outputs.shape[1])[..., tf.newaxis], outputs, 0.0)


def loss_of(layer, sequences, mask, **given):
    """A number that all outputs and last states have a part in."""
    outputs, *states = layer(sequences, mask=mask, **given)
    weights = tf.cast(mask[..., tf.newaxis], outputs.dtype)
    return tf.reduce_sum(weights * outputs**2) + sum(tf.reduce_sum(s**3) for s in states)


def gradients_of(layer, sequences, mask, **given):
    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        loss = loss_of(layer, sequences, mask, **given)
    return [loss, *tape.gradient(loss, variables)]
