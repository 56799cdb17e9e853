"""Variational dropout of every cell, by itself and in models."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from models import keras_recurrent
from models.cells import gru, lstm
from tests.models.cells.cases import (
    DROPPED,
    LENGTHS,
    POSITIONS,
    ROWS,
    every_cell,
    inputs,
    make,
    real,
)
from tests.models.examples import close, make_model
from tests.models.reference.recurrent import run_layer


def masks_to_come(layer, rows=ROWS):
    """The masks that the next run in training will draw."""
    state = layer.seed_generator.state.numpy()
    masks = layer.draw_masks(rows)
    layer.seed_generator.state.assign(state)
    return masks


@pytest.mark.usefixtures("float64")
@every_cell
def test_dropout_is_one_mask_a_sequence_on_what_products_read(cell):
    """On inputs and hidden state, the same at every step; a GRU keeps its state whole."""
    layer = make(cell, variational_dropout=DROPPED)
    sequences, mask = inputs()
    masks = masks_to_come(layer)
    outputs, *states = layer(sequences, mask=mask, training=True)
    arrays = [np.array(each) for each in masks]
    assert any((each == 0.0).any() for each in arrays)
    for each, share in zip(arrays, DROPPED.values(), strict=True):
        kept = each[each != 0.0]
        np.testing.assert_allclose(kept, 1.0 / (1.0 - share), rtol=1e-6)
    weights = layer.get_weights()
    wanted, final = run_layer(cell, sequences.numpy(), LENGTHS, weights, dropped=arrays)
    close(real(outputs), wanted)
    close(tuple(states), final)


@every_cell
def test_steps_with_one_drawing_give_what_the_whole_sequence_gives(cell):
    layer = make(cell, variational_dropout=DROPPED)
    sequences, _ = inputs()
    masks = masks_to_come(layer)
    outputs, *ends = layer(sequences, training=True)
    states = layer.get_initial_state(ROWS)
    for position in range(POSITIONS):
        output, states = layer.step(sequences[:, position], states, masks)
        close(output, outputs[:, position], 1e-6)
    close(states, ends, 1e-6)


@every_cell
def test_masks_are_fresh_each_time_and_the_same_under_a_seed(cell):
    def runs(in_graph=False):
        keras.utils.set_random_seed(3)
        layer = make(cell, variational_dropout=DROPPED)
        run = functools.partial(layer, training=True)
        run = tf.function(run) if in_graph else run
        return [run(inputs()[0])[0] for _ in range(3)]

    first, second, third = runs()
    assert np.abs(first - second).max() > 1e-3 and np.abs(second - third).max() > 1e-3
    close(runs(), [first, second, third], 0.0)
    close(runs(in_graph=True), [first, second, third], 1e-6)


def test_only_training_drops():
    layer = make("lstm", variational_dropout=DROPPED)
    plain = make("lstm")
    close(layer(inputs()[0]), plain(inputs()[0]), 0.0)
    assert np.abs(layer(inputs()[0], training=True)[0] - plain(inputs()[0])[0]).max() > 1e-3


@pytest.mark.parametrize("merge", ["concat", "sum"])
def test_the_generators_are_among_a_models_variables(merge):
    model = make_model(
        variational_dropout=DROPPED,
        encoder={"layers": 2, "units": 2, "bidirectional": True, "merge": merge},
    )
    layers = [*model.encoder.stack.layers, *model.decoder.stack.layers]
    layers = [
        each
        for layer in layers
        for each in (
            [layer.forward_layer, layer.backward_layer]
            if isinstance(layer, keras.layers.Bidirectional)
            else [layer]
        )
    ]
    known = {id(variable) for variable in model.variables}
    assert len(layers) == 5
    assert all(id(layer.seed_generator.state) in known for layer in layers)
    assert len({tuple(layer.seed_generator.state.numpy()) for layer in layers}) == 5


@pytest.mark.parametrize("cell", ["lstm", "gru", "weight_norm_lstm", "weight_norm_gru"])
@pytest.mark.parametrize(
    ("dropped", "fast"), [({}, 1), ({"inputs": 0.5}, 1), ({"inputs": 0.5, "recurrent": 0.5}, 0)]
)
def test_only_dropout_of_the_state_leaves_the_fast_loop(cell, dropped, fast, monkeypatch):
    runs = []
    for module in (keras_recurrent, gru, lstm):
        for name in ("lstm_recurrence", "gru_recurrence"):
            if hasattr(module, name):
                loop = getattr(module, name)
                counting = lambda *given, loop=loop: runs.append(1) or loop(*given)  # noqa: E731
                monkeypatch.setattr(module, name, counting)
    layer = make(cell, variational_dropout=dropped)
    layer(inputs()[0], training=True)
    assert len(runs) == fast
    layer(inputs()[0])
    assert len(runs) == fast + 1
