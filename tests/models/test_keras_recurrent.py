import keras
import numpy as np
import pytest
import tensorflow as tf

from models import keras_recurrent
from models.keras_recurrent import GRU, LSTM, refuse_cudnn
from tests.models.examples import close, make_model, mask_of, random_tensor, randomize

FEATURES, UNITS, LENGTHS, POSITIONS = 3, 2, [3, 1, 4], 4
CELLS = {"lstm": (LSTM, keras.layers.LSTM), "gru": (GRU, keras.layers.GRU)}
every_cell = pytest.mark.parametrize("cell", CELLS)


@pytest.fixture
def fast_runs(monkeypatch):
    """Counts the runs of the fast loops."""
    counted = []
    for name in ("lstm_recurrence", "gru_recurrence"):
        loop = getattr(keras_recurrent, name)

        def counting(*given, loop=loop):
            counted.append(loop)
            return loop(*given)

        monkeypatch.setattr(keras_recurrent, name, counting)
    return counted


def pair(cell, **settings):
    """Our layer and Keras's with the same weights."""
    made = []
    for layer_type in CELLS[cell]:
        layer = layer_type(UNITS, return_sequences=True, return_state=True, **settings)
        layer.build((None, None, FEATURES))
        made.append(randomize(layer))
    return made


def outcome(layer, mask):
    """Outputs, states, and gradients of a function of both into inputs and weights."""
    inputs = random_tensor(len(LENGTHS), POSITIONS, FEATURES)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs, *states = layer(inputs, mask=mask)
        total = tf.reduce_sum(outputs**2) + sum(tf.reduce_sum(s**3) for s in states)
    weights = [variable.value for variable in layer.trainable_variables]
    return outputs, states, tape.gradient(total, [inputs, *weights])


@pytest.mark.usefixtures("float64")
@every_cell
@pytest.mark.parametrize("zeros", [False, True], ids=["held", "zeroed"])
@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_the_fast_loop_gives_what_keras_gives(cell, masked, backwards, zeros, fast_runs):
    """At masked steps too, where Keras repeats the output before, or gives zero if told."""
    mask = mask_of(LENGTHS, POSITIONS) if masked else None
    settings = {"go_backwards": backwards, "zero_output_for_mask": zeros}
    ours, theirs = pair(cell, **settings)
    close(outcome(ours, mask), outcome(theirs, mask), 1e-9)
    assert len(fast_runs) == 1


@every_cell
@pytest.mark.parametrize(
    "setting",
    [
        {"activation": "relu"},
        {"recurrent_activation": "hard_sigmoid"},
        {"use_bias": False},
        {"unroll": True},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_settings_that_it_does_not_know_are_left_to_keras(cell, setting, fast_runs):
    ours, theirs = pair(cell, **setting)
    mask = mask_of(LENGTHS, POSITIONS)
    close(outcome(ours, mask), outcome(theirs, mask))
    assert not fast_runs


def test_a_gru_that_resets_before_the_product_is_left_to_keras(fast_runs):
    ours, theirs = pair("gru", reset_after=False)
    close(outcome(ours, None), outcome(theirs, None))
    assert not fast_runs


@every_cell
def test_a_bidirectional_layer_runs_it_both_ways(cell, fast_runs):
    made = []
    for layer_type in CELLS[cell]:
        layer = keras.layers.Bidirectional(layer_type(UNITS, return_sequences=True))
        layer.build((None, None, FEATURES))
        made.append(randomize(layer))
    inputs, mask = random_tensor(len(LENGTHS), POSITIONS, FEATURES), mask_of(LENGTHS, POSITIONS)
    ours, theirs = (layer(inputs, mask=mask) for layer in made)
    close(ours, theirs)
    assert len(fast_runs) == 2


@pytest.mark.parametrize("name", ["luong", "luong-fed"])
def test_models_use_it(name, fast_runs):
    """Each layer and direction of the encoder, and of a decoder that does not step."""
    model = make_model(name)
    ids = tf.constant([[4, 5, 3]])
    model({"source": ids, "target": ids})
    assert len(fast_runs) == {"luong": 2 + 1, "luong-fed": 4}[name]


@every_cell
def test_a_layer_made_from_its_configuration_is_of_its_class(cell):
    layer = CELLS[cell][0](UNITS, go_backwards=True, name="reader")
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()


def test_cudnn_is_refused_by_every_layer_of_a_model():
    model = make_model("luong")
    refuse_cudnn(model)
    encoder = model.encoder.stack.layers[0]
    layers = [encoder.forward_layer, encoder.backward_layer, *model.decoder.stack.layers]
    assert [layer.use_cudnn for layer in layers] == [False] * 3
    assert np.isfinite(model({"source": tf.constant([[4, 3]]), "target": tf.constant([[2]])})).all()
