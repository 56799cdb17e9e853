"""Clipping against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.experiment import ClipOptions
from pipeline.train.clipping import clip_gradients

GRADIENTS = [np.array([3.0, -4.0], np.float32), np.array([[0.5], [12.0]], np.float32)]
GLOBAL_NORM = np.sqrt(sum((each**2).sum() for each in GRADIENTS))


def clipped(kind, threshold):
    options = ClipOptions(kind=kind, threshold=threshold)
    gradients, norm = clip_gradients([tf.constant(each) for each in GRADIENTS], options)
    assert float(norm) == pytest.approx(GLOBAL_NORM)
    return [each.numpy() for each in gradients]


def test_value():
    expected = [np.clip(each, -2.0, 2.0) for each in GRADIENTS]
    for found, wanted in zip(clipped("value", 2.0), expected, strict=True):
        np.testing.assert_allclose(found, wanted)


def test_norm_of_each():
    for found, each in zip(clipped("norm", 6.0), GRADIENTS, strict=True):
        scale = min(1.0, 6.0 / np.linalg.norm(each))
        np.testing.assert_allclose(found, each * scale, rtol=1e-6)


@pytest.mark.parametrize("threshold", [6.0, 100.0])
def test_global_norm(threshold):
    scale = min(1.0, threshold / GLOBAL_NORM)
    for found, each in zip(clipped("global_norm", threshold), GRADIENTS, strict=True):
        np.testing.assert_allclose(found, each * scale, rtol=1e-6)


def test_none():
    for found, each in zip(clipped("none", 0.1), GRADIENTS, strict=True):
        np.testing.assert_array_equal(found, each)
