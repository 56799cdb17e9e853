"""Workers of one training: processes that talk over loopback."""

import contextlib
import json
import socket
import subprocess

import numpy as np
import pytest
import rich.console
import tensorflow as tf
from command import ROOT, command, environment

from models.errors import UserError
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.stages import train_stage
from pipeline.train.replicas import Cluster, Replicas, group

# Weights that depend on nothing but the batches.
EXACT = (
    "model.dropout=0.0",
    "train.optimizer=sgd",
    "train.learning_rate=0.5",
    "train.clip.threshold=0.3",
    "train.accumulate_steps=2",
    "train.max_steps=14",
    "train.checkpoint_every=4",
    "train.validate_every=1000",
    # Sentences that both answer, one more of them than the other.
    "train.validation_sentences=5",
    "train.best_metric=chrf",
    "search.batch_size=2",
    "search.min_length=3",  # So that there is something to score.
)
_VALUE = ".ATTRIBUTES/VARIABLE_VALUE"
DEADLINE = 600  # seconds; three processes share the cores with whatever else runs


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def start(experiment, *overrides, count=2):
    """Workers of a training."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    workers = []
    for index in range(count):
        config = {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
        }
        workers.append(
            subprocess.Popen(
                command("train", str(experiment), *(f"--set={each}" for each in overrides)),
                cwd=ROOT,
                env=environment(TF_CONFIG=json.dumps(config)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    return workers


def finish(workers):
    """Exit statuses, outputs and errors."""
    done = [each.communicate(timeout=DEADLINE) for each in workers]
    return (
        [each.returncode for each in workers],
        [output.decode() for output, _ in done],
        [errors.decode() for _, errors in done],
    )


def tensors(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if name.startswith("model/")}


def best(prefix):
    """Best score of a run's validations."""
    return float(tf.train.load_checkpoint(str(prefix)).get_tensor("progress/best/" + _VALUE))


def assert_near(one, other):
    assert one.keys() == other.keys() and one
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], atol=1e-6, rtol=0, err_msg=name)


@pytest.mark.parametrize("readers", [1, 2])
def test_two_workers_learn_what_one_process_learns(tiny, readers, tmp_path):
    """With clipping and held gradients, and an interruption; the chief alone prints and writes.

    One of two readers has two of the three record files, and goes on when the other has ended.
    """
    alone, run = tmp_path / "alone", tiny.parent / "run"
    alone.mkdir()
    (alone / "data").symlink_to(run / "data")
    exact = (*EXACT, f"train.readers={readers}")
    experiment = load_experiment(tiny, [*exact, f"workspace={alone}"])
    train_stage(experiment, workspace_of(experiment), rich.console.Console(quiet=True))
    if readers == 2:
        statuses, _, errors = finish(start(tiny, *exact, "train.max_steps=9"))
        assert statuses == [0, 0], errors
    statuses, outputs, errors = finish(start(tiny, *exact))
    assert statuses == [0, 0], errors
    assert "Training ended at step 14" in outputs[0]
    assert outputs[1] == ""
    found, wanted = (each / "train/ckpt-14" for each in (run, alone))
    assert_near(tensors(found), tensors(wanted))
    assert best(found) == best(wanted) > 0.0
    assert len([*(run / "logs").rglob("events*")]) == readers  # A file a start.


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ("{", "expected JSON"),
        ({"cluster": {"worker": ["a:1"]}}, "expected JSON"),
        ({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}, "names the job 'ps'"),
        ({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}, "index from 0"),
    ],
)
def test_wrong_tf_config_is_told(config, complaint):
    text = config if isinstance(config, str) else json.dumps(config)
    with pytest.raises(UserError, match=complaint):
        Cluster.of_environment({"TF_CONFIG": text})


def test_the_chief_comes_first():
    addresses = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    config = {"cluster": addresses, "task": {"type": "worker", "index": 1}}
    assert Cluster.of_environment({"TF_CONFIG": json.dumps(config)}) == Cluster(3, 2)
    config["task"] = {"type": "chief", "index": 0}
    assert Cluster.of_environment({"TF_CONFIG": json.dumps(config)}).is_chief
    assert Cluster.of_environment({}) == Cluster(1, 0)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_every_row_goes_to_one_replica(rows, own):
    """Also where there are fewer rows than replicas, or parts would be uneven.

    Of all workers' replicas there are two, or of this worker's own, with as many of another.
    """
    replicas = Replicas(tf.distribute.get_strategy(), Cluster())
    replicas.count, replicas._local = (4, 2) if own else (2, 1)
    ids = np.arange(1, 1 + rows * 2, dtype=np.int32).reshape(rows, 2)
    batches = tf.data.Dataset.from_tensors(({"source": ids}, ids))
    ((inputs, labels),) = replicas.split(batches, own).as_numpy_iterator()
    assert labels.shape == (2, -(-rows // 2), 2)
    np.testing.assert_array_equal(inputs["source"], labels)
    kept = labels.reshape(-1, 2)
    kept = kept[kept.any(1)]
    np.testing.assert_array_equal(kept[np.argsort(kept[:, 0])], ids)


def test_groups_end_with_what_is_left():
    assert list(group(range(5), 2)) == [[0, 1], [2, 3], [4]]
