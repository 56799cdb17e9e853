"""Small inputs and weights that the tests of the models share."""

import keras
import numpy as np
import tensorflow as tf


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
