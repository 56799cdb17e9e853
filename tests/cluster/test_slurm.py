"""Jobs on a Slurm of two nodes, really run, disturbed and ended exactly."""

import os
import pathlib
import shutil
import signal
import time

import numpy as np
import pytest
from command import seqloom

from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.submit.jobs import find_job
from pipeline.submit.members import launcher_of

DEADLINE = 600  # seconds; the nodes share the cores with whatever else runs
STEPS = 40
# Weights that depend on nothing but the batches.
EXACT = (
    "model.dropout=0.0",
    "train.optimizer=sgd",
    "train.learning_rate=0.5",
    f"train.max_steps={STEPS}",
    "train.checkpoint_every=4",
    "train.validate_every=1000",
)


@pytest.fixture
def commands(slurm, monkeypatch):
    """The command, and this process, on a machine with Slurm's commands."""
    for name, value in slurm.variables.items():
        monkeypatch.setenv(name, value)

    def run(verb, *arguments, overrides=(), **how):
        return seqloom(verb, *(f"--set={each}" for each in overrides), *arguments, **how)

    return run


class Submitted:
    """The newest job of an experiment."""

    def __init__(self, experiment):
        self.workspace = workspace_of(load_experiment(experiment))
        self.handle = find_job(self.workspace)
        self.launcher = launcher_of(self.handle)

    @property
    def status(self):
        return self.launcher.status(self.handle)

    def wait(self, reached):
        """Wait until a status, or a file, is there."""
        started = time.monotonic()
        while not reached():
            assert time.monotonic() - started < DEADLINE, self.told()
            assert self.status.state not in ("failed", "lost", "cancelled"), self.told()
            time.sleep(0.05)

    def told(self):
        return f"{self.status}\n" + "\n".join(self.launcher.logs(self.handle, follow=False))

    def number(self, stage):
        return self.handle.native["numbers"][stage]


def kill_rank(rank, number):
    """Kill the process of a task of a job."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        task = {f"SLURM_PROCID={rank}".encode(), f"SLURM_JOB_ID={number}".encode()}
        if b"pipeline.submit.slurm_task" in words and b"srun" not in words[0]:
            if task <= set(variables):
                os.kill(int(folder.name), signal.SIGKILL)
                return
    raise AssertionError(f"no task {rank} of job {number}")


def weights(run):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(run / f"train/ckpt-{STEPS}"))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("model/")]
    assert names
    return {name: reader.get_tensor(name) for name in names}


def test_a_disturbed_training_ends_as_an_undisturbed_one(slurm, commands, tiny, tmp_path):
    """It is told to save, as before a time limit, and later loses a rank."""
    commands(
        *("submit", str(tiny), "--to", "slurm", "--workers", "2", "--stage", "train"),
        overrides=EXACT,
    )
    job = Submitted(tiny)
    train = job.workspace.train
    job.wait(lambda: (train / "ckpt-4.index").exists())
    slurm.run("scancel", "--batch", "--signal=USR1", job.number("train"))
    job.wait(lambda: job.status.restarts == 1 and job.status.state == "running")
    assert "interrupted" in " ".join(path.name for path in job.handle.job.folder.iterdir())
    saved = len(list(train.glob("ckpt-*.index")))
    job.wait(
        lambda: len(list(train.glob("ckpt-*.index"))) > saved or (train / "ckpt-32.index").exists()
    )
    kill_rank(1, job.number("train"))
    job.wait(lambda: job.status.state == "done")
    # More where a loaded machine is late for its neighbours of its own accord.
    assert job.status.restarts >= 2

    run = tmp_path / "alone"
    run.mkdir()
    (run / "data").symlink_to(job.workspace.data)
    commands("train", str(tiny), overrides=(*EXACT, f"workspace={run}"))
    expected = weights(run)
    for name, value in weights(job.workspace.root).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-6, rtol=0, err_msg=name)
    printed = commands("logs", str(tiny)).stdout.decode()
    assert f"train-0: Training ended at step {STEPS}" in printed
    assert " done " in commands("jobs", str(tiny)).stdout.decode()


def test_all_stages_run_in_turn(commands, prepared_folder, tiny):
    """The first is an array, queued from within a job, with the files that one machine writes."""
    settings = (
        "cluster.runner=slurm",
        "cluster.running_mode=in_memory",
        "cluster.array_jobs=2",
        "cluster.workers=1",
        "train.max_steps=4",
        "train.validation_sentences=1",
        "export.warmup_requests=0",
    )
    run = tiny.parent / "run"
    shutil.rmtree(run / "data")
    commands("submit", str(tiny), "--to", "slurm", overrides=settings)
    job = Submitted(tiny)
    job.wait(lambda: job.status.stage == "prepare" and job.status.state == "running")
    refused = commands("submit", str(tiny), "--stage", "train", status=2).stderr.decode()
    assert f"job {job.handle.job.id}, which is running, has the same stages (train)" in refused
    job.wait(lambda: job.status.state == "done")
    assert job.status.stage == "export"
    assert (run / "train/ckpt-4.index").exists() and (run / "scores/test.json").exists()
    assert (run / "export/translation/1/saved_model.pb").exists()

    def files(folder):
        return {path.name: path.read_bytes() for path in (folder / "data").iterdir()}

    assert files(run) == files(prepared_folder / "run")


def test_a_mistake_ends_the_stages_behind_it_and_is_not_tried_again(commands, tiny):
    overrides = ("data.train.0.path=nowhere.tsv",)
    commands("submit", str(tiny), "--to", "slurm", overrides=overrides)
    job = Submitted(tiny)
    started = time.monotonic()
    while job.status.state != "failed":
        assert time.monotonic() - started < DEADLINE, job.told()
        time.sleep(0.2)
    assert job.status.stage == "prepare" and job.status.restarts == 0
    assert "exit status 2" in job.status.detail
    assert "nowhere.tsv: no such file" in job.told()
    assert job.handle.native["numbers"].keys() == {"prepare", "train", "evaluate", "export"}


def test_a_waiting_job_is_cancelled(slurm, commands, tiny):
    overrides = ('submit.slurm.options=["--begin=now+1hour"]',)
    commands("submit", str(tiny), "--to", "slurm", "--stage", "train", overrides=overrides)
    job = Submitted(tiny)
    assert job.status.state == "waiting"
    commands("cancel", str(tiny))
    assert job.status.state == "cancelled"
    assert slurm.run("squeue", "--noheader").strip() == ""
    refused = commands("cancel", str(tiny), status=2).stderr.decode()
    assert "it is cancelled" in refused


def test_what_slurm_refuses_is_told(commands, tiny):
    overrides = ("submit.slurm.partition=nowhere",)
    refused = commands(
        *("submit", str(tiny), "--to", "slurm", "--stage", "train"), overrides=overrides, status=2
    )
    assert "nvalid partition name" in refused.stderr.decode()
