"""Two replicas learn what one learns of the whole batch.

In processes of their own: TensorFlow's processor is split in two before it starts.
"""

import functools
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
import rich.console
import tensorflow as tf
from command import ROOT, environment

from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.stages import train_stage
from pipeline.train import trainer
from pipeline.train.lazy_adam import LazyAdam
from pipeline.train.replicas import Cluster, Replicas, make_strategy
from pipeline.train.steps import Steps
from tests.pipeline.train.test_steps import CLIPS, LABELS, SOURCE, make, run
from tests.pipeline.train.test_workers import EXACT, assert_near, best, tensors

# A model that is soon traced, and little that it answers, which takes longer than to train.
QUICK = (
    "model.cell=simple_rnn",
    "train.best_metric=loss",
    "train.validation_sentences=1",
    "train.samples=0",
)


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


def run_here(call):
    """Call a function of this file in a process of its own."""
    code = f"from tests.pipeline.train import test_replicas; test_replicas.{call}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def halve_the_processor():
    (processor,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(processor, halves)


def test_two_replicas_learn_what_one_learns():
    run_here("main()")


def test_a_machine_with_several_gpus_trains_as_one_device(tiny, tmp_path):
    """A whole training, interrupted once, on two devices that stand for GPUs."""
    alone, run = tmp_path / "alone", tiny.parent / "run"
    alone.mkdir()
    (alone / "data").symlink_to(run / "data")
    told = run_here(f"train({str(tiny)!r}, {str(alone)!r})")
    assert told.split() == ["2", "2", "1"]
    found, wanted = (each / "train/ckpt-14" for each in (run, alone))
    assert_near(tensors(found), tensors(wanted))
    assert best(found) == pytest.approx(best(wanted), rel=1e-6)


def train(path, alone):
    """Train on both devices to a step, and on to the last; and on one of them in one go."""
    halve_the_processor()
    quiet = rich.console.Console(quiet=True)
    for devices, changes in (
        (2, ("train.max_steps=9",)),
        (2, ()),
        (1, (f"workspace={alone}",)),
    ):
        experiment = load_experiment(path, [*EXACT, *QUICK, *changes])
        strategy = functools.partial(strategy_of_gpus, devices)
        with mock.patch.object(trainer, "make_strategy", strategy):
            train_stage(experiment, workspace_of(experiment), quiet)


def strategy_of_gpus(count, cluster):
    """What is chosen where there are so many GPUs, which are processors here."""
    mirrored = functools.partial(tf.distribute.MirroredStrategy, ["CPU:0", "CPU:1"])
    with (
        mock.patch.object(tf.config, "list_logical_devices", lambda kind: [kind] * count),
        mock.patch.object(tf.distribute, "MirroredStrategy", mirrored),
    ):
        strategy = make_strategy(cluster)
    print(strategy.num_replicas_in_sync)
    return strategy


def main():
    import keras

    halve_the_processor()
    compare(lambda: keras.optimizers.SGD(1.0))
    compare(lambda: LazyAdam(0.1))
    compare_masks()
