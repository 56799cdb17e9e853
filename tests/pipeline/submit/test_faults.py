"""What becomes of a training whose processes are killed, hang, or find the disk full.

Whatever happens, it ends with the weights of a training that nothing happened to, and at the same
place in the data, with the same state of its random generators.
"""

import io
import json
import os
import random
import re
import resource
import shutil
import signal
import time

import keras
import numpy as np
import pytest
import rich.console
import tensorflow as tf
from command import seqloom

from models.errors import UserError
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.prepare.run import prepare
from pipeline.stages import train_stage
from pipeline.submit.contract import ENDED
from pipeline.submit.jobs import find_job
from pipeline.submit.members import launcher_of
from pipeline.train.trainer import Trainer

# A model that is soon built, and steps that are many enough to be killed between.
EXPERIMENT = """\
name: tiny
workspace: {run}
seed: 5
data:
  train: [{{format: text, path: {folder}/train.txt}}]
  valid: [{{format: text, path: {folder}/valid.txt}}]
  cleaning: {{drop_duplicates: false}}
  shards: 3
vocabulary: {{algorithm: word, target_size: 20}}
model:
  task: language_model
  cell: simple_rnn
  embedding_size: 4
  dropout: 0.2
  decoder: {{units: 4}}
train:
  batch_tokens: 64
  learning_rate: 0.01
  log_every: 100
  max_steps: {steps}
  checkpoint_every: {checkpoint_every}
  validate_every: 1000
  samples: 0
cluster: {{running_mode: in_memory, hang_seconds: {hang_seconds}}}
submit: {{workers: 2, grace_seconds: 10, max_restarts: 8}}
"""
STEPS, EVERY = 300, 20
SHORT = {"steps": 12, "checkpoint_every": 4}
HANG_SECONDS = 20.0
DEADLINE = 900.0  # of a job, on a machine that others use too


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder with a corpus and the records made of it."""
    folder = tmp_path_factory.mktemp("corpus")
    generator = random.Random(2)
    words = "sun moon star sky rain wind snow fog".split()
    for name, count in (("train", 300), ("valid", 8)):
        lines = (
            " ".join(generator.choices(words, k=generator.randint(3, 5))) for _ in range(count)
        )
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    experiment = load(write(folder, folder / "run"))
    prepare(experiment, workspace_of(experiment), quiet())
    return folder


def write(folder, run, steps=STEPS, checkpoint_every=EVERY, hang_seconds=600.0):
    """The experiment's file, for a run with the prepared records."""
    run.mkdir(exist_ok=True)
    if not (run / "data").exists() and (folder / "run/data").exists():
        (run / "data").symlink_to(folder / "run/data")
    path = run / "tiny.yaml"
    path.write_text(EXPERIMENT.format(**locals()))
    return path


def load(path):
    return load_experiment(path)


def quiet():
    return rich.console.Console(file=io.StringIO(), width=1000)


def tensors(path):
    """All values of a run's last checkpoint: weights, optimizer, random states, progress."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(path.parent / "train")))
    # Training that was told to stop has saved once more.
    others = {"_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter/.ATTRIBUTES/VARIABLE_VALUE"}
    names = set(reader.get_variable_to_shape_map()) - others
    return {name: reader.get_tensor(name) for name in names}


def assert_same(found, wanted):
    """Whole numbers are equal; others differ by the order in which TensorFlow adds, if at all."""
    assert found.keys() == wanted.keys() and found
    for name, value in wanted.items():
        near = 1e-6 if value.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(found[name], value, rtol=near, atol=near, err_msg=name)


@pytest.fixture(scope="module")
def undisturbed(corpus, tmp_path_factory):
    """Values that a gang of two ends with, and what its job has shown."""
    path = write(corpus, tmp_path_factory.mktemp("undisturbed"))
    shown = seqloom("submit", str(path), "--stage", "train", "--follow", timeout=DEADLINE)
    return tensors(path), shown.stdout.decode()


class Watched:
    """A job and the numbers of its processes, as they are to be seen from outside."""

    def __init__(self, path):
        self._run = path.parent
        workspace = workspace_of(load_experiment(path))
        self.handle = find_job(workspace)
        self.launcher = launcher_of(self.handle)
        self._deadline = time.monotonic() + DEADLINE

    def process(self, worker):
        return json.loads((self.handle.job.folder / "status.json").read_text())["processes"][worker]

    @property
    def status(self):
        return self.launcher.status(self.handle)

    @property
    def step(self):
        last = tf.train.latest_checkpoint(str(self._run / "train"))
        return int(last.rpartition("-")[2]) if last else 0

    def lines(self):
        return [*self.launcher.logs(self.handle, follow=False)]

    def wait_until(self, true):
        while not true():
            assert self.status.state not in ENDED, self.lines()
            assert time.monotonic() < self._deadline, self.lines()
            time.sleep(0.01)

    def wait_for_end(self):
        while self.status.state not in ENDED:
            assert time.monotonic() < self._deadline, self.lines()
            time.sleep(0.05)


def test_an_undisturbed_job_shows_its_lines_and_ends(undisturbed):
    _, shown = undisturbed
    assert f"train-0: Training ended at step {STEPS}" in shown
    assert re.search(r"^Job \S+ is done$", shown, re.MULTILINE)
    assert not re.search(r"^train-1: (step|Training)", shown, re.MULTILINE)


def test_a_gang_that_meets_every_fault_ends_as_one_that_meets_none(corpus, undisturbed, tmp_path):
    """One job, disturbed again and again, each time after another checkpoint."""
    path = write(corpus, tmp_path, hang_seconds=HANG_SECONDS)
    seqloom("submit", str(path), "--stage", "train")
    job = Watched(path)
    told = []
    for number, worker in (
        (signal.SIGKILL, 1),
        (signal.SIGKILL, 0),
        (signal.SIGSTOP, 1),
        (signal.SIGTERM, 1),
    ):
        restarts, before = job.status.restarts, job.step
        job.wait_until(lambda last=before: job.step > last)
        disturbed_at = time.monotonic()
        step = job.step
        os.kill(job.process(worker), number)
        job.wait_until(lambda last=restarts: job.status.restarts > last)
        ended_at = time.monotonic()
        kept = job.step
        job.wait_until(lambda last=kept: job.step > last)
        print(
            f"{number.name} of worker {worker} after step {step}: gang ended after "
            f"{ended_at - disturbed_at:.1f} s, went on from step {kept}, which was passed after "
            f"{time.monotonic() - disturbed_at:.1f} s"
        )
        told.append([line for line in job.lines() if re.match("job:.* for the ", line)][-1])
    job.wait_for_end()
    assert job.status.state == "done", job.lines()
    assert "process 1 was ended by SIGKILL" in told[0]
    assert "process 0 was ended by SIGKILL" in told[1]
    assert "process 1 was ended by SIGKILL" in told[2]  # That hung, once the other had noticed.
    assert "process 0 exited 75, process 1 exited 75; they ask to be started again" in told[3]
    assert f"train-0: Training ended at step {STEPS}" in "\n".join(job.lines())
    assert_same(tensors(path), undisturbed[0])


@pytest.fixture(scope="module")
def short(corpus, tmp_path_factory):
    """Values that one process ends with after a few steps, and its folder."""
    path = write(corpus, tmp_path_factory.mktemp("short"), **SHORT)
    train_stage(load(path), workspace_of(load(path)), quiet())
    return tensors(path), path


def test_a_torn_checkpoint_is_told_and_left_for_the_one_before(corpus, short, tmp_path):
    wanted, whole = short
    path = write(corpus, tmp_path, **SHORT)
    shutil.copytree(whole.parent / "train", tmp_path / "train")
    torn = tmp_path / "train/ckpt-12.data-00000-of-00001"
    os.truncate(torn, torn.stat().st_size // 2)
    console = quiet()
    train_stage(load(path), workspace_of(load(path)), console)
    said = console.file.getvalue()
    assert re.search(r"train/ckpt-12: cannot be read \(.+\); going on from step 8\n", said)
    assert "Training ended at step 12" in said
    assert_same(tensors(path), wanted)


def test_no_checkpoint_that_can_be_read_is_a_mistake(corpus, short, tmp_path):
    path = write(corpus, tmp_path, **SHORT)
    shutil.copytree(short[1].parent / "train", tmp_path / "train")
    for torn in (tmp_path / "train").glob("ckpt-*.index"):
        os.truncate(torn, 10)
    with pytest.raises(
        UserError, match=r"none of its checkpoints can be read(.|\n)*ckpt-4: cannot"
    ):
        train_stage(load(path), workspace_of(load(path)), quiet())


class FullDisk(keras.callbacks.Callback):
    """From a step on no file takes more than a few bytes."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))


def test_after_a_full_disk_training_goes_on_from_the_last_checkpoint(corpus, short, tmp_path):
    path = write(corpus, tmp_path, **SHORT)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(UserError, match=r"step 8 cannot be saved.*goes on from .*ckpt-4"):
            Trainer(load(path), workspace_of(load(path))).run([FullDisk()])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [*(tmp_path / "train").glob("ckpt-8*")]
    assert Trainer(load(path), workspace_of(load(path))).step == 4
    train_stage(load(path), workspace_of(load(path)), quiet())
    assert_same(tensors(path), short[0])


def test_a_finished_run_started_again_says_so(short):
    console = quiet()
    outcome = train_stage(load(short[1]), workspace_of(load(short[1])), console)
    assert outcome.reason == "already finished"
    assert "it had already ended" in console.file.getvalue()
