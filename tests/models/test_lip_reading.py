"""The model that reads lips against its equations, and what must not change what it reads."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.lip_reading import LipReadingModel
from models.search.hypotheses import SearchOptions
from tests.models.examples import MODELS, close, random_ids, randomize, shifted
from tests.models.reference.gradients import as_arrays, assert_same_loss_and_gradients
from tests.models.reference.lip_reading import lip_logits, parts_of
from tests.models.reference.losses import cross_entropy
from tests.models.reference.pictures import small_network

VOCABULARY, SIDE = 7, 8
LENGTHS = [3, 1, 2]
SEED = tf.constant([1, 2], tf.int32)
CLIPS = [
    np.random.default_rng(length).integers(0, 255, (length, SIDE, SIDE, 3), np.uint8)
    for length in LENGTHS
]


def make_model(scale=0.2, **changes):
    given = {**MODELS["luong"], "embedding_size": 3, **changes}
    given["encoder"] = {
        **given["encoder"],
        "backbone": {"name": "small", "weights": None},
        "picture_size": SIDE,
    }
    model = LipReadingModel(VOCABULARY, **given)
    model.build()
    return randomize(model, scale=scale)


def clips(extra=0, padding=0):
    pixels = np.full((3, max(LENGTHS) + extra, SIDE, SIDE, 3), padding, np.uint8)
    for row, clip in enumerate(CLIPS):
        pixels[row, : len(clip)] = clip
    return {"pixels": tf.constant(pixels), "frames": tf.constant(LENGTHS)}


def texts():
    labels = random_ids([4, 2, 1], VOCABULARY)
    return labels, shifted(labels)


def seen(model):
    """What the network makes of the frames of each clip, by the reference."""
    weights = as_arrays(model.encoder.backbone.trainable_variables)
    return [small_network(clip.astype(np.float64), weights) for clip in CLIPS]


@pytest.mark.usefixtures("float64")
def test_logits_are_those_of_the_equations():
    model = make_model()
    _, target = texts()
    wanted = lip_logits(model.options, seen(model), target.numpy(), as_arrays(parts_of(model)))
    real = target.numpy() != 0
    close(model({**clips(), "target": target}).numpy()[real], wanted[real])


@pytest.mark.usefixtures("float64")
def test_gradients_are_those_of_the_equations():
    model = make_model()
    labels, target = texts()
    grids = seen(model)
    variables = parts_of(model)
    own = sum(map(len, variables.values())) + len(model.encoder.backbone.trainable_variables)
    assert own == len(model.trainable_variables)

    def loss_of(arrays):
        logits = lip_logits(model.options, grids, target.numpy(), arrays)
        real = labels.numpy() != 0
        return cross_entropy(logits[real], labels.numpy()[real]).sum()

    loss = lambda: model.loss_sums({**clips(), "target": target}, labels, SEED).loss  # noqa: E731
    assert_same_loss_and_gradients(loss, variables, loss_of)


@pytest.mark.usefixtures("float64")
def test_the_gradient_of_the_network_is_that_of_the_equations_along_a_line():
    model = make_model()
    labels, target = texts()
    network = model.encoder.backbone.trainable_variables
    with tf.GradientTape() as tape:
        loss = model.loss_sums({**clips(), "target": target}, labels, SEED).loss
    gradients = tape.gradient(loss, [each.value for each in network])
    length = np.sqrt(sum(np.sum(np.square(each)) for each in gradients))
    line = [np.array(each) / length for each in gradients]  # up the gradient itself
    arrays, weights = as_arrays(parts_of(model)), as_arrays(network)

    def moved(step):
        there = [one + step * by for one, by in zip(weights, line, strict=True)]
        grids = [small_network(clip.astype(np.float64), there) for clip in CLIPS]
        logits = lip_logits(model.options, grids, target.numpy(), arrays)
        real = labels.numpy() != 0
        return cross_entropy(logits[real], labels.numpy()[real]).sum()

    slope = (moved(1e-6) - moved(-1e-6)) / 2e-6
    assert length > 1e-3
    np.testing.assert_allclose(length, slope, rtol=1e-4)


def test_pads_and_other_clips_change_nothing():
    model = make_model()
    _, target = texts()
    found = model({**clips(), "target": target})
    close(model({**clips(extra=2, padding=99), "target": target}), found, 1e-5)
    for row in range(3):
        alone = {name: each[row : row + 1] for name, each in clips().items()}
        alone["pixels"] = alone["pixels"][:, : LENGTHS[row]]
        close(model({**alone, "target": target[row : row + 1]})[0], found[row], 1e-5)


def test_the_order_of_frames_matters_and_each_place_of_a_frame():
    model = make_model(scale=0.5)
    _, target = texts()
    found = model({**clips(), "target": target})
    for axis in (1, 3):  # of time, and of columns
        pixels = tf.reverse(clips()["pixels"][:1], [axis])
        given = {"pixels": pixels, "frames": tf.constant([3]), "target": target[:1]}
        assert np.abs(model(given)[0] - found[0]).max() > 1e-3


def test_a_text_has_the_score_of_its_pieces_and_is_no_longer_for_more_frames():
    model = make_model()
    options = SearchOptions(kind="greedy", length_penalty=0.0, max_length_extra=4)
    found = model.translate(clips(), options)
    ids = found.ids[:, 0, :]
    assert ids.shape[1] <= 5
    target = tf.concat([tf.fill([3, 1], 2), ids[:, :-1]], 1)
    forced = model.force(clips(), target, ids)
    close(found.scores[:, 0], tf.reduce_sum(forced.log_probabilities, 1))


def test_each_piece_of_a_text_looks_at_the_frames_of_its_clip():
    labels = texts()[0]
    maps = make_model().look(clips(), labels).numpy()  # [B, L, T]
    assert maps.shape == (3, 4, 3)
    close(maps.sum(2), (labels.numpy() != 0).astype(np.float32))
    assert not maps[1, :, 1:].any() and not maps[2, :, 2:].any()


def test_configuration_makes_an_equal_model():
    model = make_model(encoder={"units": 2, "self_attention": {"layers": 1, "heads": 2}})
    again = LipReadingModel.from_config(model.get_config())
    again.build()
    assert again.get_config() == model.get_config()
    again.set_weights(model.get_weights())
    given = {**clips(), "target": texts()[1]}
    close(again(given), model(given), 1e-6)


@pytest.mark.usefixtures("mixed_bfloat16")
def test_half_precision_stays_near():
    half = make_model()
    keras.config.set_dtype_policy("float32")
    whole = make_model()
    given = {**clips(), "target": texts()[1]}
    assert half.features(given).dtype == tf.bfloat16
    close(tf.nn.softmax(half(given)), tf.nn.softmax(whole(given)), 0.05)
