"""The model that tags frames against its equations, and what must not change what it tags."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.frame_tagging import FrameTaggingModel
from tests.models.examples import MODELS, close, randomize
from tests.models.reference.gradients import as_arrays, assert_same_loss_and_gradients
from tests.models.reference.lip_reading import frame_tag_logits
from tests.models.reference.losses import cross_entropy
from tests.models.reference.pictures import small_network

TAGS, SIDE = 7, 8
LENGTHS = [3, 1, 2]
LABELS = tf.constant([[4, 5, 4], [6, 0, 0], [5, 6, 0]])
SEED = tf.constant([1, 2], tf.int32)
CLIPS = [
    np.random.default_rng(length).integers(0, 255, (length, SIDE, SIDE, 3), np.uint8)
    for length in LENGTHS
]


def make_model(scale=0.2):
    given = {**MODELS["luong"], "embedding_size": 3}
    backbone = {"name": "tiny", "weights": None}
    encoder = {**given["encoder"], "backbone": backbone, "picture_size": SIDE}
    model = FrameTaggingModel(TAGS, given["cell"], 3, encoder=encoder)
    model.build()
    return randomize(model, scale=scale)


def clips(padding=0, extra=0):
    pixels = np.full((3, max(LENGTHS) + extra, SIDE, SIDE, 3), padding, np.uint8)
    for row, clip in enumerate(CLIPS):
        pixels[row, : len(clip)] = clip
    return {"pixels": tf.constant(pixels), "frames": tf.constant(LENGTHS)}


def parts_of(model):
    encoder = model.encoder
    parts = {"frame": encoder.frame, "norm": encoder.norm, "encoder": encoder.stack}
    parts["projection"] = model.projection
    return {name: part.trainable_variables for name, part in parts.items()}


def seen(model):
    weights = as_arrays(model.encoder.backbone.trainable_variables)
    return [small_network(clip.astype(np.float64), weights) for clip in CLIPS]


@pytest.mark.usefixtures("float64")
def test_logits_and_gradients_are_those_of_the_equations():
    model = make_model()
    grids, real = seen(model), LABELS.numpy() != 0
    wanted = frame_tag_logits(model.options, grids, as_arrays(parts_of(model)))
    close(model(clips()).numpy()[real], wanted[real])

    def loss_of(arrays):
        logits = frame_tag_logits(model.options, grids, arrays)
        return cross_entropy(logits[real], LABELS.numpy()[real]).sum()

    loss = lambda: model.loss_sums(clips(), LABELS, SEED).loss  # noqa: E731
    assert_same_loss_and_gradients(loss, parts_of(model), loss_of)


def test_pads_change_nothing_and_have_no_tag():
    model = make_model()
    one, other = model.tag(clips()), model.tag(clips(padding=9, extra=2))
    real = LABELS.numpy() != 0
    assert (one.ids.numpy()[real] >= 4).all()
    assert not one.ids.numpy()[~real].any() and not one.probabilities.numpy()[~real].any()
    np.testing.assert_array_equal(other.ids[:, :3], one.ids)
    close(other.probabilities[:, :3], one.probabilities)
    assert not other.ids.numpy()[:, 3:].any()


def test_a_frame_is_tagged_by_those_around_it():
    model = make_model(scale=0.5)
    turned = {**clips(), "pixels": tf.reverse(clips()["pixels"], [1])}
    middle = [model(each).numpy()[0, 1] for each in (clips(), turned)]
    assert np.abs(middle[0] - middle[1]).max() > 1e-3


def test_configuration_makes_an_equal_model():
    model = make_model()
    copy = FrameTaggingModel.from_config(model.get_config())
    copy.build()
    copy.set_weights(model.get_weights())
    close(copy(clips()), model(clips()))
    assert keras.saving.get_registered_object("seqloom>FrameTaggingModel") is FrameTaggingModel
