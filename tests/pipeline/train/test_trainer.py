"""The trainer: what it reports, that it resumes exactly, and when it ends."""

import math

import keras
import numpy as np
import pytest

from models.errors import UserError
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.prepare.run import prepare
from pipeline.train.checkpoints import restore_best
from pipeline.train.trainer import Trainer


class Recorder(keras.callbacks.Callback):
    """Keeps what it is told, and stops the run or raises where it is asked to."""

    def __init__(self, stop_at=None, die_at=None):
        super().__init__()
        self.training, self.validation, self.epochs = {}, {}, []
        self.steps = 0
        self.stop_at, self.die_at = stop_at, die_at

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if logs:
            self.training[batch] = dict(logs)
        if batch == self.stop_at:
            self.model.stop_training = True
        if batch == self.die_at:
            raise KeyboardInterrupt

    def on_test_end(self, logs=None):
        self.validation[logs["step"]] = dict(logs)

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(epoch)


def trainer(path, *overrides):
    experiment = load_experiment(path, overrides)
    return Trainer(experiment, workspace_of(experiment))


def weights(run):
    return [np.array(weight) for weight in run.model.weights]


def assert_equal_weights(one, other):
    for first, second in zip(weights(one), weights(other), strict=True):
        np.testing.assert_array_equal(first, second)


def test_reports_and_ends_at_the_limit(tiny):
    recorder = Recorder()
    run = trainer(tiny)
    outcome = run.run([recorder])
    assert (outcome.step, outcome.reason) == (24, "steps")
    assert recorder.steps == 24
    assert sorted(recorder.training) == [4, 8, 12, 16, 20, 24]
    assert sorted(recorder.validation) == [12, 24]
    logs = recorder.training[24]
    assert set(logs) == {
        "loss",
        "perplexity",
        "accuracy",
        "learning_rate",
        "gradient_norm",
        "source_tokens_per_second",
        "target_tokens_per_second",
    }
    assert logs["perplexity"] == pytest.approx(math.exp(logs["loss"]))
    assert logs["learning_rate"] == pytest.approx(0.01)
    assert recorder.training[24]["loss"] < recorder.training[4]["loss"]
    assert set(recorder.validation[24]) >= {"loss", "perplexity", "accuracy", "bleu", "chrf"}
    assert recorder.epochs and recorder.epochs == sorted(recorder.epochs)
    assert outcome.best == max(each["bleu"] for each in recorder.validation.values())


@pytest.mark.parametrize("death", [8, 17])
def test_a_run_that_died_ends_with_the_weights_of_an_undisturbed_one(tiny, trained, death):
    """Checkpoints are at 6, 12, 18 and 24; the deaths are in different epochs."""
    with pytest.raises(KeyboardInterrupt):
        trainer(tiny).run([Recorder(die_at=death)])
    resumed = trainer(tiny)
    recorder = Recorder()
    assert resumed.step == death // 6 * 6
    outcome = resumed.run([recorder])
    assert outcome.step == 24
    assert recorder.steps == 24 - death // 6 * 6
    undisturbed = trainer(trained)
    assert undisturbed.step == 24
    assert_equal_weights(undisturbed, resumed)
    for one, two in zip(
        undisturbed.model.optimizer.variables, resumed.model.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(np.array(one), np.array(two))


def test_same_seed_same_weights_other_seed_others(tiny):
    first = trainer(tiny, "train.max_steps=3")
    second = trainer(tiny, "train.max_steps=3")
    assert_equal_weights(first, second)
    with pytest.raises(UserError, match="seed"):
        trainer(tiny, "train.max_steps=3", "seed=6")


def test_finished_run_says_so(trained):
    recorder = Recorder()
    outcome = trainer(trained).run([recorder])
    assert outcome.reason == "already finished"
    assert outcome.step == 24 and recorder.steps == 0


def test_finished_run_goes_on_when_the_limit_is_raised(trained):
    recorder = Recorder()
    outcome = trainer(trained, "train.max_steps=26").run([recorder])
    assert (outcome.step, outcome.reason, recorder.steps) == (26, "steps", 2)


def test_run_stopped_at_its_last_step_is_validated_by_the_next(tiny):
    run = trainer(tiny, "train.max_steps=5")

    class Signal(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 5:
                run.stop("signal")

    assert run.run([Signal()]).reason == "signal"
    recorder = Recorder()
    outcome = trainer(tiny, "train.max_steps=5").run([recorder])
    assert (outcome.reason, outcome.best_step, recorder.steps) == ("steps", 5, 0)
    assert list(recorder.validation) == [5]
    assert trainer(tiny, "train.max_steps=5").run().reason == "already finished"


def test_other_model_is_refused(trained):
    with pytest.raises(UserError, match="begun with other settings of model"):
        trainer(trained, "model.cell=gru")
    with pytest.raises(UserError, match="begun with other settings of train"):
        trainer(trained, "train.batch_tokens=128")


def test_epochs_and_callbacks_end_a_run(tiny):
    run = trainer(tiny, "train.max_epochs=1", "train.max_steps=1000")
    expected = run.total_steps
    outcome = run.run()
    assert outcome.reason == "epochs"
    assert abs(outcome.step - expected) <= 1
    stopped = trainer(tiny, "train.max_steps=1000").run([Recorder(stop_at=outcome.step + 2)])
    assert (stopped.step, stopped.reason) == (outcome.step + 2, "callback")


def test_keras_own_callbacks_work(tiny):
    log = tiny.parent / "log.csv"
    callbacks = [
        keras.callbacks.CSVLogger(str(log)),
        keras.callbacks.EarlyStopping("val_loss", mode="min", patience=0, min_delta=1000.0),
    ]
    outcome = trainer(tiny, "train.max_steps=1000", "train.validate_every=4").run(callbacks)
    # The first epoch sets the mark, the second does not better it by that much.
    assert outcome.reason == "callback"
    header, *rows = log.read_text().splitlines()
    assert {"epoch", "loss", "accuracy", "val_loss", "val_bleu"} <= set(header.split(","))
    assert len(rows) == 2


def test_patience_ends_a_run(tiny):
    outcome = trainer(
        tiny,
        "train.max_steps=1000",
        "train.validate_every=2",
        "train.early_stopping={patience: 2, minimum_gain: 1000}",
    ).run()
    assert (outcome.step, outcome.reason) == (6, "patience")


def test_the_best_is_kept_however_small_its_gain(tiny):
    run = trainer(tiny)
    for step, value in enumerate([1.0, 1.01, 1.005, 1.02], 1):
        run._keep_if_best(step, value)
    assert float(run.progress.best) == 1.02 and int(run.progress.best_step) == 4
    assert int(run.progress.without_gain) == 0


def test_a_small_gain_does_not_reset_patience(tiny):
    run = trainer(tiny, "train.early_stopping.minimum_gain=0.1")
    for step, value in enumerate([1.0, 1.01, 1.02], 1):
        run._keep_if_best(step, value)
    assert int(run.progress.best_step) == 3
    assert int(run.progress.without_gain) == 2


def test_best_checkpoint_is_that_of_the_best_step(tiny):
    run = trainer(tiny, "train.validate_every=4", "train.best_metric=loss", "train.max_steps=12")
    recorder = Recorder()
    outcome = run.run([recorder])
    losses = {step: logs["loss"] for step, logs in recorder.validation.items()}
    assert outcome.best_step == min(losses, key=losses.get)
    fresh = trainer(tiny, "train.validate_every=4", "train.best_metric=loss", "train.max_steps=12")
    assert restore_best(fresh._workspace, fresh.model) == outcome.best_step


def test_torn_checkpoint_falls_back_to_the_one_before(trained):
    folder = trained.parent / "run/train"
    newest = folder / "ckpt-24.data-00000-of-00001"
    newest.write_bytes(newest.read_bytes()[:100])
    assert trainer(trained).step == 18
    for path in folder.glob("ckpt-*.data*"):
        path.write_bytes(b"")
    with pytest.raises(UserError, match="none of its checkpoints can be read"):
        trainer(trained)


@pytest.mark.parametrize(
    "settings",
    [
        ["train.precision=mixed_bfloat16", "train.loss.label_smoothing=0.1"],
        ["train.precision=mixed_float16", "train.clip={kind: value, threshold: 0.1}"],
        ["train.jit_compile=true", "train.max_steps=4"],
        ["train.jit_compile=true", "train.max_steps=4", "train.loss.kind=nce"],
        ["train.loss={kind: nce, noise_words: 8}", "train.clip.kind=none"],
        ["train.loss={kind: sampled, noise_words: 8}", "train.optimizer=lazy_adam"],
        ["model.cell=gru", "model.decoder.kind=bahdanau", "model.attention.score=additive"],
        ["model.decoder.input_feeding=true", "model.encoder.layers=2", "train.optimizer=sgd"],
    ],
    ids=" ".join,
)
def test_one_line_changes_how_it_trains(tiny, settings):
    recorder = Recorder()
    common = ["train.max_steps=8", "train.validate_every=8", "train.validation_sentences=2"]
    trainer(tiny, *common, *settings).run([recorder])
    assert all(math.isfinite(logs["loss"]) for logs in recorder.training.values())
    assert all(math.isfinite(logs["loss"]) for logs in recorder.validation.values())
    assert recorder.validation


def test_diverging_run_says_what_to_do(tiny):
    run = trainer(tiny)
    run.model.projection.bias.assign(np.full(run.model.projection.bias.shape, np.nan))
    with pytest.raises(UserError, match="lower train.learning_rate"):
        run.run()


def test_missing_valid_split(tiny, console):
    experiment = load_experiment(tiny, ["data.valid=[]"])
    prepare(experiment, workspace_of(experiment), console)
    with pytest.raises(UserError, match="no valid split"):
        trainer(tiny, "data.valid=[]")
