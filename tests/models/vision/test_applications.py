"""Backbones of keras.applications by name."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.vision.kinds import make_backbone


def test_a_network_by_name_scales_pixels_as_it_was_trained():
    backbone = make_backbone("MobileNetV2", picture_size=64)
    pixels = tf.random.stateless_uniform([1, 64, 64, 3], [1, 2], 0.0, 255.0)
    features = backbone(pixels)
    assert features.shape == [1, 2, 2, backbone.feature_size] == [1, 2, 2, 1280]
    expected = backbone.network(pixels / 127.5 - 1.0, training=False)
    np.testing.assert_allclose(features, expected, atol=1e-5)


def test_an_unknown_network_is_told():
    with pytest.raises(UserError, match="no network 'MobileNetV9'.*MobileNetV2"):
        make_backbone("MobileNetV9")


def test_missing_weights_are_told_and_the_policy_stays():
    before = keras.config.dtype_policy()
    with pytest.raises(UserError, match="nowhere.h5: no such weights file"):
        make_backbone("MobileNetV2", "nowhere.h5", picture_size=64)
    assert keras.config.dtype_policy() == before
