"""What evaluating does before it has a model to evaluate."""

import pytest

from models.errors import UserError
from pipeline import evaluate
from pipeline.batches import Pairs
from pipeline.experiment_file import load_experiment, workspace_of


def test_threads_are_set_before_tensorflow_starts(tiny, console, monkeypatch):
    """Reading records starts it, and then its threads can no longer be chosen."""
    called = []
    monkeypatch.setattr(evaluate, "load_manifest", lambda *_: None)
    monkeypatch.setattr(evaluate, "configure_tensorflow", lambda *_: called.append("threads"))
    monkeypatch.setattr(
        evaluate, "read_pairs", lambda *_: called.append("records") or Pairs([], [], [], [])
    )
    experiment = load_experiment(tiny)
    with pytest.raises(UserError, match="the test split is empty"):
        evaluate.evaluate(experiment, workspace_of(experiment), console)
    assert called == ["threads", "records"]
