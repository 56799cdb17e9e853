"""Memory of an export, measured in a process of its own."""

import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from serving.deploy.memory import measure
from serving.warmup import write_warmup

MIB = 1 << 20
WEIGHTS, ROW = 64, 2  # MiB


class Heavy(tf.Module):
    """Has weights, and needs memory for each row."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.random.uniform([WEIGHTS * MIB // 4]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def sums(self, x):
        wide = tf.random.uniform([tf.shape(x)[0], ROW * MIB // 4]) * x[:, tf.newaxis]
        return {"y": tf.reduce_sum(tf.sort(wide), 1) + self.weights[0]}


def save(folder, requests):
    model = Heavy()
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.sums})
    write_warmup(folder, {"serving_default": requests}, "heavy")
    return folder


def test_weights_and_full_batches_are_measured(tmp_path):
    folder = save(tmp_path / "1", [{"x": np.ones([1], np.float32)}])
    rows = 32
    measured = measure(folder, rows, 1)
    assert measured.load_seconds > 0
    # Two of the tensors of a row are there at once at least.
    least = (WEIGHTS + 2 * rows * ROW) * MIB
    assert least < measured.model_bytes < 5 * least
    assert measured.base_bytes > 50 * MIB


def test_an_export_without_requests_cannot_be_measured(tmp_path):
    with pytest.raises(UserError, match="set export.warmup_requests above 0"):
        measure(save(tmp_path / "1", []), 2, 1)


def test_what_is_no_export_is_told(tmp_path):
    with pytest.raises(UserError, match="cannot be loaded .* Export it again"):
        measure(tmp_path, 2, 1)
