"""The callbacks, driven by Keras's own list of callbacks as a trainer does."""

import io

import keras
import numpy as np
import pytest
from rich.console import Console

from models.errors import UserError
from pipeline.monitor.callbacks import (
    DEFAULT_PANELS,
    PANELS,
    TensorBoardMonitor,
    build_callbacks,
    show_samples,
)

TRAINING = {
    "loss": 3.5,
    "perplexity": 33.1,
    "accuracy": 0.4,
    "learning_rate": 1e-3,
    "gradient_norm": 2.0,
    "source_tokens_per_second": 3000.0,
    "target_tokens_per_second": 3512.0,
}
VALIDATION = {"loss": 3.0, "perplexity": 20.1, "accuracy": 0.5, "bleu": 12.5, "chrf": 33.0}


@pytest.fixture
def run(tmp_path):
    """Makes the callbacks of a run, in a Keras list, and returns both."""

    def make(model=None, **options):
        console = Console(file=io.StringIO(), force_terminal=False, width=200)
        callbacks = build_callbacks(tmp_path / "logs", 400, console=console, **options)
        return keras.callbacks.CallbackList(callbacks, model=model), callbacks

    return make


def test_every_figure_becomes_a_curve_at_the_global_step(run, tmp_path, read_events):
    every, _ = run()
    every.on_train_begin()
    every.on_train_batch_end(50, TRAINING)
    every.on_train_batch_end(100, {**TRAINING, "loss": np.float32(3.25)})
    every.on_test_begin()
    every.on_test_end({"step": 120, **VALIDATION})
    every.on_train_end()
    events = read_events(tmp_path / "logs")
    for name in TRAINING:
        assert events.steps(f"train/{name}") == [50, 100]
    assert events.values("train/loss") == [3.5, 3.25]
    for name, value in VALIDATION.items():
        assert events.steps(f"valid/{name}") == [120]
        assert events.values(f"valid/{name}") == [pytest.approx(value)]
    assert "valid/step" not in events.tags()
    assert events.description("train/gradient_norm").startswith("Global norm")


def test_a_validation_without_a_step_stands_at_the_last_one(run, tmp_path, read_events):
    every, _ = run()
    every.on_train_begin()
    every.on_train_batch_end(70)
    every.on_test_begin()
    every.on_test_end(VALIDATION)
    every.on_train_end()
    assert read_events(tmp_path / "logs").steps("valid/bleu") == [70]


def test_samples_become_a_table_and_pictures(run, tmp_path, read_events, samples):
    every, callbacks = run()
    every.on_train_begin()
    show_samples(callbacks, 90, samples)
    every.on_train_end()
    events = read_events(tmp_path / "logs")
    assert events.steps("translations") == [90]
    assert "打开" in events.values("translations")[0].decode()
    assert events.plugin("attention/1") == "images"
    assert "attention/2" not in events.tags()  # an empty translation attends to nothing
    assert events.values("attention/1")[0][2].startswith(b"\x89PNG")


def test_what_was_reported_is_on_disk_before_the_run_ends(run, tmp_path, read_events):
    every, _ = run()
    every.on_train_begin()
    every.on_train_batch_end(50, TRAINING)
    assert read_events(tmp_path / "logs").steps("train/loss") == [50]
    every.on_train_end()


def test_panels_are_chosen_by_name(run, tmp_path, read_events):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    every, _ = run(model, panels=["weights"])
    every.on_train_begin()
    every.on_test_begin()
    every.on_test_end(VALIDATION)
    every.on_train_end()
    assert all(tag.startswith("weights/") for tag in read_events(tmp_path / "logs").tags())
    assert set(DEFAULT_PANELS) == set(PANELS) - {"weights"}


def test_an_unknown_panel_is_a_users_mistake(run):
    with pytest.raises(UserError, match=r"'scalar': expected one of .* Did you mean 'scalars'\?"):
        run(panels=["scalar"])


def test_nothing_is_written_before_training_begins(tmp_path):
    TensorBoardMonitor(tmp_path / "logs", [])
    assert not (tmp_path / "logs").exists()


def test_samples_reach_only_callbacks_that_show_them(samples):
    show_samples([keras.callbacks.Callback()], 1, samples)
