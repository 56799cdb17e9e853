"""The captioning model against NumPy, and what it learns, searches and refuses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.captioning import CaptioningModel, doubly_stochastic
from models.errors import UserError
from models.search.hypotheses import SearchOptions
from models.special_ids import END_ID
from models.vision.contract import Backbone
from tests.models.examples import close, random_tensor, randomize, sentences, shifted
from tests.models.reference import captioning as reference
from tests.models.reference.gradients import as_arrays, assert_same_loss_and_gradients
from tests.models.reference.losses import cross_entropy, project

VOCABULARY, FEATURES, UNITS = 8, 3, 4
LENGTHS = [2, 0, 3]
KINDS = ("gated", "first_input", "every_step")
every_kind = pytest.mark.parametrize("kind", KINDS)
# Only the gated decoder attends.
every_way = pytest.mark.parametrize(
    ("kind", "attention"), [*((kind, "soft") for kind in KINDS), ("gated", "hard")]
)


def make(kind="gated", cell="lstm", **options):
    given = {"decoder": {"units": UNITS}, **options}
    model = CaptioningModel(FEATURES, VOCABULARY, cell, embedding_size=2, kind=kind, **given)
    model.build()
    return randomize(model)


def grid(rows=3):
    return random_tensor(rows, 2, 3, FEATURES, seed=7)


def variables(model):
    decoder = model.decoder
    named = {name: getattr(decoder, name) for name in ("embedding", "stack", "combine")}
    named["bridge"] = decoder.bridge
    for name in ("attention", "gate", "enter"):
        if hasattr(decoder, name):
            named[name] = getattr(decoder, name)
    found = {name: layer.trainable_variables for name, layer in named.items()}
    found["projection"] = model.projection.trainable_variables
    return {name: each for name, each in found.items() if each}


@pytest.mark.usefixtures("float64")
@every_kind
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_features_and_attention_are_those_of_the_equations(kind, cell):
    model = make(kind, cell)
    labels = sentences(LENGTHS)
    target = shifted(labels)
    found = model._decode({"features": grid(), "target": target}, training=False)
    arrays = as_arrays(variables(model))
    features, weights = reference.caption_features(
        kind, cell, target.numpy(), grid().numpy(), arrays
    )
    close(found.features, features)
    close(found.weights, weights.astype(np.float32))


@pytest.mark.usefixtures("float64")
@every_kind
def test_loss_and_gradients_hold_against_finite_differences(kind):
    model = make(kind, "gru", stochastic_weight=0.5)
    labels = sentences(LENGTHS)
    target = shifted(labels)
    inputs = {"features": grid(), "target": target}
    real = tf.cast(labels > 0, tf.float32)

    def loss():
        decoded = model._decode(inputs, training=False)
        logits = model.projection(decoded.features)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        extra = model._extra_loss(decoded, tf.cast(losses, tf.float32), real)
        words = tf.reduce_sum(tf.cast(losses, tf.float64) * tf.cast(real, tf.float64))
        return words + tf.cast(extra, tf.float64)

    def expected(arrays):
        features, weights = reference.caption_features(
            kind, "gru", target.numpy(), grid().numpy(), arrays
        )
        logits = project(features, *arrays["projection"])
        losses = cross_entropy(logits.reshape(-1, VOCABULARY), labels.numpy().reshape(-1))
        total = (losses * (labels.numpy().reshape(-1) > 0)).sum()
        if kind != "gated":
            return total
        lengths = (labels.numpy() > 0).sum(1)
        return total + 0.5 * reference.doubly_stochastic(weights, lengths)

    # The attention is float32 by contract.
    assert_same_loss_and_gradients(loss, variables(model), expected, tolerance=2e-3)


def test_the_regulariser_counts_real_words_alone():
    weights = tf.constant([[[0.5, 0.5], [1.0, 0.0], [9.0, 9.0]], [[1.0, 1.0]] * 3])
    real = tf.constant([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    # (1 - 1.5)² + (1 - 0.5)²; a row of pads alone has no part.
    assert float(doubly_stochastic(weights, real)) == pytest.approx(0.5)
    assert float(doubly_stochastic(weights, 0.5 * real)) == pytest.approx(0.25)


@every_way
def test_a_search_finds_what_forcing_scores(kind, attention):
    model = make(kind, attention={"score": "additive", "units": None, "kind": attention})
    options = SearchOptions("greedy", length_penalty=0.0, max_length_extra=5)
    found = model.translate(grid(), options)
    ids = found.ids[:, 0]
    assert tf.reduce_all(tf.reduce_any(ids == END_ID, 1))
    forced = model.force(grid(), shifted(ids), ids)
    close(tf.reduce_sum(forced.log_probabilities, 1), found.log_probabilities[:, 0], 1e-4)
    beam = model.translate(grid(), SearchOptions("beam", 1, 0.0, max_length_extra=5))
    close(beam.ids, found.ids)


@every_way
def test_two_pictures_learn_two_captions(kind, attention):
    keras.utils.set_random_seed(2)
    model = CaptioningModel(
        FEATURES,
        VOCABULARY,
        embedding_size=8,
        kind=kind,
        decoder={"units": 16},
        attention={"score": "additive", "units": None, "kind": attention},
    )
    model.build()
    labels = sentences([3, 2], seed=3)
    inputs = {"features": 2.0 * grid(2), "target": shifted(labels)}
    optimizer = keras.optimizers.Adam(0.03)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = model.loss_sums(inputs, labels, tf.zeros([2], tf.int32)).loss
        gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
        assert all(gradient is not None for gradient in gradients)
        optimizer.apply(gradients, model.trainable_variables)

    for _ in range(150):
        step()
    found = model.translate(inputs["features"], SearchOptions("beam", 3, max_length_extra=6))
    np.testing.assert_array_equal(found.ids[:, 0, :4], labels)


def test_what_cannot_start_from_a_mean_is_refused():
    with pytest.raises(UserError, match="'copy' hands over an encoder's state"):
        make(decoder={"units": UNITS, "bridge": "copy"})
    with pytest.raises(UserError, match="cannot start the cell 'projected_lstm'"):
        make(cell="projected_lstm")
    model = make(cell="projected_lstm", decoder={"units": UNITS, "bridge": "zero"})
    labels = sentences(LENGTHS)
    assert model.features({"features": grid(), "target": shifted(labels)}).shape[:2] == labels.shape


@every_kind
def test_an_equal_model_is_made_of_the_configuration(kind):
    model = make(kind)
    again = CaptioningModel.from_config(model.get_config())
    again.build()
    again.set_weights(model.get_weights())
    inputs = {"features": grid(), "target": shifted(sentences(LENGTHS))}
    close(again(inputs), model(inputs))


class Normalising(Backbone):
    """Pixels, times a gain, normalised."""

    picture_size, feature_size = 3, FEATURES

    def __init__(self, weights=None, **kwargs):
        super().__init__(weights, **kwargs)
        self.norm = keras.layers.BatchNormalization(name="norm")

    def build(self, *_):
        self.norm.build((None, 3, 3, FEATURES))
        self.built = True

    def call(self, pixels, training=False):
        return self.norm(tf.cast(pixels, tf.float32), training=training)


def test_a_network_of_its_own_learns_but_keeps_its_statistics():
    model = CaptioningModel(FEATURES, VOCABULARY, embedding_size=2, decoder={"units": UNITS},
                            backbone=Normalising())  # fmt: skip
    model.build()
    labels = sentences(LENGTHS)
    pixels = random_tensor(3, 3, 3, FEATURES, seed=7)
    inputs = {"pixels": pixels, "target": shifted(labels)}
    before = [each.numpy() for each in model.backbone.non_trainable_variables]
    assert before and model.reads == "pixels" and len(model.pretrained) == 2
    with tf.GradientTape() as tape:
        loss = model.loss_sums(inputs, labels, tf.constant([1, 2])).loss
    for gradient in tape.gradient(loss, [each.value for each in model.pretrained]):
        assert np.abs(gradient).max() > 0
    for old, new in zip(before, model.backbone.non_trainable_variables, strict=True):
        np.testing.assert_array_equal(old, new.numpy())
    frozen = make()
    for own, given in zip(frozen.weights, model.weights[-len(frozen.weights) :], strict=True):
        given.assign(own)
    seen = {"features": model.see(pixels), "target": inputs["target"]}
    close(model.features(inputs), frozen.features(seen))
