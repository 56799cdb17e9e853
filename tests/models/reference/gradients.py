"""Gradients of a TensorFlow loss held against finite differences of a NumPy one."""

import keras
import numpy as np
import tensorflow as tf

STEP = 1e-5


def numeric_gradients(function, arrays):
    """Central differences of a scalar function of nested lists and dicts of float64 arrays."""
    flat = tf.nest.flatten(arrays)
    return tf.nest.pack_sequence_as(arrays, [_differences(function, arrays, a) for a in flat])


def _differences(function, arrays, array):
    """Gradient of `function(arrays)` by one of its arrays, which is moved in place."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + STEP
        above = function(arrays)
        array[index] = kept - STEP
        below = function(arrays)
        array[index] = kept
        gradient[index] = (above - below) / (2.0 * STEP)
    return gradient


def as_arrays(variables):
    """Float64 copies of nested Keras variables and tensors."""
    return tf.nest.map_structure(lambda each: np.array(_tensor(each), np.float64), variables)


def assert_same_loss_and_gradients(loss, variables, reference, tolerance=1e-5):
    """Hold a loss and its gradients against the reference's.

    Args:
        loss: Gives a scalar tensor; called under a tape.
        variables: Nested Keras variables and tensors that the loss reads.
        reference: Gives a float of arrays nested as `variables`.
        tolerance: Absolute, and relative to the largest element of a gradient.
    """
    arrays = as_arrays(variables)
    tensors = [_tensor(each) for each in tf.nest.flatten(variables)]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = loss()
    np.testing.assert_allclose(value, reference(arrays), rtol=tolerance, atol=tolerance)
    found = tape.gradient(value, tensors)
    wanted = tf.nest.flatten(numeric_gradients(reference, arrays))
    for tensor, gradient, difference in zip(tensors, found, wanted, strict=True):
        assert gradient is not None, f"no gradient reaches {tensor.name}"
        gradient = tf.convert_to_tensor(gradient).numpy()
        allowed = tolerance * max(1.0, np.abs(difference).max())
        np.testing.assert_allclose(gradient, difference, rtol=0, atol=allowed)


def _tensor(variable):
    return variable.value if isinstance(variable, keras.Variable) else variable
