"""Two replicas learn what one learns of the whole batch.

In a process of their own: TensorFlow's processors are split in two before it starts.
"""

import pathlib
import subprocess
import sys

import numpy as np
import tensorflow as tf

from pipeline.train.lazy_adam import LazyAdam
from pipeline.train.replicas import Cluster, Replicas
from pipeline.train.steps import Steps
from tests.pipeline.train.test_steps import CLIPS, LABELS, SOURCE, make, run

ROOT = pathlib.Path(__file__).parents[3]


def compare(optimizer):
    """Hold the weights after a step of two replicas, a row each, against those of one."""
    wanted, norm = run(optimizer(), clip=CLIPS[-1])
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model, shared = make("full"), optimizer()
        shared.build(model.trainable_variables)
        steps = Steps(model, shared, CLIPS[-1], 1, strategy)

    batch = {"source": tf.constant(SOURCE[:, None])}, tf.constant(LABELS[:, None])  # [R, 1, T]
    report = steps.train(batch, tf.constant(0, tf.int64))
    norms = [float(each) for each in strategy.experimental_local_results(report.gradient_norm)]
    np.testing.assert_allclose(norms, [norm, norm], rtol=1e-5)
    for found, expected in zip(model.get_weights(), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def compare_masks():
    """Replicas draw masks of their own, of which the first's are those of one process."""
    import keras

    rows = tf.ones([1, 100])

    def make():
        keras.utils.set_random_seed(4)
        return keras.Sequential([keras.layers.Input((100,)), keras.layers.Dropout(0.5)])

    alone = make()
    wanted = [alone(rows, training=True).numpy() for _ in range(2)]
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        shared = make()
    Replicas(strategy, Cluster()).part_seeds(shared)
    draw = tf.function(lambda: strategy.run(lambda: shared(rows, training=True)))
    drawn = [strategy.experimental_local_results(draw()) for _ in range(2)]
    for (first, second), expected in zip(drawn, wanted, strict=True):
        np.testing.assert_array_equal(first, expected)
        assert 25 < np.count_nonzero(first != second) < 75
    assert np.any(drawn[0][1] != drawn[1][1])
    # What a checkpoint keeps is the first replica's.
    np.testing.assert_array_equal(shared.variables[0].numpy(), alone.variables[0].numpy())


def test_two_replicas_learn_what_one_learns():
    code = "from tests.pipeline.train import test_replicas; test_replicas.main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def main():
    import keras

    (processor,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(processor, halves)
    compare(lambda: keras.optimizers.SGD(1.0))
    compare(lambda: LazyAdam(0.1))
    compare_masks()
