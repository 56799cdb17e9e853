"""Which stages `run` goes through, and what they say at their end."""

import contextlib
import json
import math

import pytest
import tensorflow as tf

from models.errors import UserError
from pipeline import stages
from pipeline.exit_status import RESTART
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.train.replicas import Cluster
from pipeline.train.trainer import TrainingOutcome


@pytest.fixture
def called(monkeypatch):
    """Names of the stages that were run; none of them does any work."""
    names = []
    for name in ("prepare", "train_stage", "evaluate", "export"):
        monkeypatch.setattr(stages, name, lambda *_, name=name: names.append(name))
    monkeypatch.setattr(stages, "is_exported", lambda *_: False)
    return names


def test_run_goes_through_all_stages_that_are_not_up_to_date(tiny, console, called):
    experiment = load_experiment(tiny)
    stages.run_stages(experiment, workspace_of(experiment), console)
    assert called == ["train_stage", "evaluate", "export"]
    assert "prepare: up to date" in console.file.getvalue()


def test_run_does_not_evaluate_without_a_test_split(tiny, console, called):
    experiment = load_experiment(tiny, ["data.test=[]"])
    stages.run_stages(experiment, workspace_of(experiment), console)
    assert called == ["prepare", "train_stage", "export"]
    assert "evaluate: left out" in console.file.getvalue()


def describe_workers(monkeypatch, index):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))


def test_what_a_killed_worker_has_left_is_cleared_by_its_next_start(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(stages.tempfile, "tempdir", str(tmp_path))
    workspace = workspace_of(load_experiment(tiny))
    with contextlib.ExitStack() as killed:
        other = killed.enter_context(stages._place_of(Cluster(3, 2), workspace))
        own = killed.enter_context(stages._place_of(Cluster(3, 1), workspace))
        (own / "ckpt-4.index").touch()
        with stages._place_of(Cluster(3, 1), workspace) as again:
            assert again.is_dir() and other.is_dir() and not own.exists()
        assert not again.exists()


def test_a_stage_may_be_chosen(tiny, console, called):
    experiment = load_experiment(tiny)
    stages.run_stages(experiment, workspace_of(experiment), console, ["export"])
    assert called == ["export"]


@pytest.mark.parametrize(("index", "expected"), [(0, ["export"]), (1, [])])
def test_of_many_workers_the_chief_exports(tiny, console, called, monkeypatch, index, expected):
    describe_workers(monkeypatch, index)
    experiment = load_experiment(tiny)
    stages.run_stages(experiment, workspace_of(experiment), console, ["export"])
    assert called == expected


def test_many_workers_do_not_run_all_stages(tiny, console, called, monkeypatch):
    describe_workers(monkeypatch, 1)
    experiment = load_experiment(tiny)
    with pytest.raises(UserError, match="names 2 workers(.|\n)*seqloom submit --workers 2"):
        stages.run_stages(experiment, workspace_of(experiment), console)
    assert called == []


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (TrainingOutcome(7, math.nan, 0, "signal"), "no best model"),
        (TrainingOutcome(24, 31.25, 12, "steps"), "Best bleu 31.25 at step 12"),
    ],
)
def test_training_says_how_it_ended(tiny, console, monkeypatch, outcome, expected):
    class Ended:
        total_steps, step, unreadable = 24, 0, ()

        def __init__(self, *_):
            pass

        def run(self, callbacks):
            return outcome

    monkeypatch.setattr(stages, "Trainer", Ended)
    monkeypatch.setattr(stages, "load_manifest", lambda *_: None)
    experiment = load_experiment(tiny)
    if outcome.reason == "signal":
        with pytest.raises(SystemExit):
            stages.train_stage(experiment, workspace_of(experiment), console)
    else:
        stages.train_stage(experiment, workspace_of(experiment), console)
    assert expected in console.file.getvalue()


def test_an_evaluation_that_loses_a_worker_asks_to_be_started_again(monkeypatch, console, capfd):
    def lose(*_):
        raise tf.errors.UnavailableError(None, None, "Connection reset by peer")

    def end(status):
        raise SystemExit(status)

    describe_workers(monkeypatch, 1)
    monkeypatch.setattr(stages, "evaluate", lose)
    monkeypatch.setattr(stages.os, "_exit", end)
    with pytest.raises(SystemExit, match=str(RESTART)):
        stages.evaluate_stage(None, None, console)
    assert "worker 1: another worker was lost (UnavailableError)" in capfd.readouterr().err
