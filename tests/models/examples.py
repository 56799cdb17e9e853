"""Small inputs and weights that the tests of the models share."""

import keras
import numpy as np
import tensorflow as tf

from models.special_ids import BEGIN_ID, END_ID
from models.translation import TranslationModel

VOCABULARY = 8

# Options of small models that between them use every member of every family.
MODELS = {
    "luong": {
        "cell": "lstm",
        "encoder": {"layers": 1, "units": 2, "bidirectional": True, "residual": False},
        "decoder": {
            "kind": "luong",
            "layers": 1,
            "units": 3,
            "residual": False,
            "input_feeding": False,
            "bridge": "dense",
        },
        "attention": {"score": "general", "units": None},
    },
    "luong-fed": {
        "cell": "gru",
        "encoder": {"layers": 2, "units": 2, "bidirectional": True, "residual": True},
        "decoder": {
            "kind": "luong",
            "layers": 2,
            "units": 4,
            "residual": True,
            "input_feeding": True,
            "bridge": "copy",
        },
        "attention": {"score": "dot", "units": None},
    },
    "bahdanau": {
        "cell": "lstm",
        "encoder": {"layers": 1, "units": 3, "bidirectional": False, "residual": False},
        "decoder": {
            "kind": "bahdanau",
            "layers": 2,
            "units": 2,
            "residual": False,
            "input_feeding": False,
            "bridge": "zero",
        },
        "attention": {"score": "additive", "units": 4},
    },
}


def make_model(name="luong", scale=0.5, **options):
    """A small built model with random weights."""
    given = {**MODELS[name], "embedding_size": 3, **options}
    model = TranslationModel(VOCABULARY, VOCABULARY, **given)
    model.build()
    return randomize(model, scale=scale)


def sentences(lengths, seed=0, positions=None):
    """Int32 [B, S] of sources, `lengths` words and an end mark each, padded with 0."""
    words = random_ids(lengths, VOCABULARY, seed, positions or max([*lengths, 0]) + 1).numpy()
    words[np.arange(len(lengths)), lengths] = END_ID
    return tf.constant(words)


def shifted(labels):
    """Decoder inputs of labels [B, T]: one word later, the begin mark first, pads kept."""
    labels = labels.numpy()
    target = np.roll(labels, 1, 1)
    target[:, 0] = BEGIN_ID
    target[(labels == 0)] = 0
    return tf.constant(target)


def randomize(layer, seed=0, scale=0.5):
    """Replace the weights by larger random ones, biases too, and return the layer.

    Weights as they start would leave every activation close to linear.
    """
    generator = np.random.default_rng(seed)
    layer.set_weights([generator.normal(0.0, scale, w.shape) for w in layer.get_weights()])
    return layer


def random_tensor(*shape, seed=0):
    """Normal numbers in the compute dtype of layers made now."""
    numbers = np.random.default_rng(seed).normal(size=shape)
    return tf.constant(numbers, keras.config.dtype_policy().compute_dtype)


def random_ids(lengths, vocabulary, seed=0, positions=None):
    """Int32 [B, S] of ids from 4 on, padded on the right with 0."""
    ids = np.zeros((len(lengths), positions or max(lengths)), np.int32)
    generator = np.random.default_rng(seed)
    for row, length in enumerate(lengths):
        ids[row, :length] = generator.integers(4, vocabulary, length)
    return tf.constant(ids)


def mask_of(lengths, positions):
    """Bool [B, S], true at the first `lengths` positions."""
    return tf.sequence_mask(lengths, positions)


def close(found, wanted, tolerance=1e-5):
    """Assert nested tensors equal to a tolerance."""
    tf.nest.assert_same_structure(found, wanted, check_types=False)
    for left, right in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        if left is not None or right is not None:
            np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
