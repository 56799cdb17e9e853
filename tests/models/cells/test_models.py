"""Whole models of every cell."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from models import keras_recurrent
from models.cells.kinds import make_layer, shapes_of
from models.errors import UserError
from tests.models.cells.cases import DROPPED, NTM, UNITS, inputs, make
from tests.models.examples import MODELS, close, make_model, sentences, shifted
from tests.models.reference.recurrent import STEPS
from tests.models.test_translation import search_options


@pytest.mark.parametrize("cell", ["lstm", "gru", "peephole_projected_lstm", "layer_norm_gru"])
@pytest.mark.parametrize("name", ["luong", "luong-fed", "bahdanau"])
def test_decoders_keep_one_drawing_over_all_steps_of_a_sentence(cell, name):
    model = make_model(name, cell=cell, variational_dropout=DROPPED)
    decoder, target = model.decoder, tf.constant([[2, 4, 5, 6], [2, 7, 4, 0]])
    memory, state = decoder.prepare(model.encoder(sentences([2, 4])))
    generators = [layer.seed_generator.state for layer in decoder.stack.layers]
    before = [generator.numpy() for generator in generators]
    masks = decoder.stack.draw_masks(2)
    for generator, value in zip(generators, before, strict=True):
        generator.assign(value)
    features, _ = decoder(target, memory, state, training=True)
    embedded = decoder.embedding(target)
    for position in range(4):
        words = embedded[:, position : position + 1]
        step = decoder.advance(words, memory, state, True, masks)
        close(step.features, features[:, position : position + 1])
        state = step.state
    assert np.abs(features - decoder(target, memory, state, training=True)[0]).max() > 1e-3


@pytest.mark.parametrize("name", ["luong", "luong-fed"])
def test_a_model_that_drops_is_compiled_by_xla(name):
    model = make_model(name, cell="weight_norm_lstm", variational_dropout=DROPPED)
    keras_recurrent.refuse_cudnn(model)
    model.drop_pads = False
    labels = sentences([3, 1], seed=5)
    batch = {"source": sentences([2, 4]), "target": shifted(labels)}
    variables = [variable.value for variable in model.trainable_variables]

    @functools.partial(tf.function, jit_compile=True)
    def gradients():
        with tf.GradientTape() as tape:
            loss = model.loss_sums(batch, labels, tf.constant([1, 2])).loss
        return loss, [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    losses = [gradients()[0] for _ in range(3)]
    assert len({float(loss) for loss in losses}) == 3
    assert all(np.isfinite(each).all() for each in gradients()[1])


def test_a_decoder_that_would_draw_at_every_step_is_refused():
    model = make_model("bahdanau", variational_dropout=DROPPED)
    memory, state = model.decoder.prepare(model.encoder(sentences([2])))
    embedded = model.decoder.embedding(tf.constant([[4]]))
    with pytest.raises(UserError, match=r"model\.variational_dropout.*steps.*set its shares to 0"):
        model.decoder.advance(embedded, memory, state, training=True)


@pytest.mark.parametrize(("cell", "name"), zip(STEPS, itertools.cycle(MODELS), strict=False))
def test_a_model_of_every_cell_translates_as_it_scores(cell, name):
    """By steps with states reordered by a beam, and by whole sequences: the same numbers."""
    assert_translates_as_it_scores(make_model(name, cell=cell, scale=1.0))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_whose_state_holds_a_memory_translates_as_it_scores(name):
    decoder = {**MODELS[name]["decoder"], "bridge": "zero"}
    assert_translates_as_it_scores(make_model(name, decoder=decoder, scale=1.0, **NTM))


@pytest.mark.parametrize("bridge", ["copy", "dense"])
def test_only_zero_bridges_a_state_that_holds_a_memory(bridge):
    decoder = {**MODELS["luong"]["decoder"], "bridge": bridge}
    with pytest.raises(UserError, match=rf"model\.decoder\.bridge '{bridge}'.*'ntm'.*use 'zero'"):
        make_model(decoder=decoder, **NTM)


def test_the_state_of_a_memory_is_not_dropped_from():
    with pytest.raises(UserError, match=r"model\.variational_dropout\.recurrent.*set it to 0"):
        make_layer("ntm", UNITS, variational_dropout={"recurrent": 0.5})
    layer = make("ntm", NTM["cell_options"], variational_dropout={"inputs": 0.5})
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    assert [tuple(state.shape[1:]) for state in states] == shapes_of(layer)
    assert np.abs(layer(sequences, mask=mask, training=True)[0] - outputs).max() > 1e-3


def assert_translates_as_it_scores(model):
    source = sentences([2, 4, 1])
    translate = tf.function(lambda ids: model.translate(ids, search_options(nbest=2)))
    found = translate(source)
    for rank in range(2):
        labels = found.ids[:, rank]
        forced = model.force(source, shifted(labels), labels)
        total = tf.reduce_sum(forced.log_probabilities, 1)
        close(found.log_probabilities[:, rank], total, 1e-4)
