"""Training methods through the trainer: what they report, and that they resume exactly."""

import csv
import shutil

import keras
import numpy as np
import pytest

from models.errors import UserError
from pipeline.batch_plan import BatchOptions
from pipeline.batches import length_range
from pipeline.experiment import TrainSection
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.train.methods import TrainingMethods
from pipeline.train.trainer import Trainer

# Every epoch of the tiny corpus has some ten batches, so that 24 steps see three of them.
ALL = (
    "train.scheduled_sampling={decay: linear, decay_steps: 20, minimum: 0.1}",
    "train.curriculum={growth: linear, start: 0.4, epochs: 2}",
    "train.self_paced={kind: soft, threshold: 6.0, growth: 1.1}",
    "train.validate_every=1000",
    "train.validation_sentences=2",
    "train.samples=0",
)


class Recorder(keras.callbacks.Callback):
    """Keeps the training's logs, and dies where it is asked to."""

    def __init__(self, die_at=None):
        super().__init__()
        self.logs, self.die_at = {}, die_at

    def on_train_batch_end(self, batch, logs=None):
        if logs:
            self.logs[batch] = dict(logs)
        if batch == self.die_at:
            raise KeyboardInterrupt


def trainer(path, *overrides):
    experiment = load_experiment(path, overrides)
    return Trainer(experiment, workspace_of(experiment))


def another(tiny):
    """The setting that makes a run in a workspace beside the first, of the same data."""
    folder = tiny.parent / "another"
    shutil.copytree(tiny.parent / "run", folder)
    return f"workspace={folder}"


def test_methods_are_off_unless_asked_for(tiny):
    run = trainer(tiny)
    assert run.model.scheduled_sampling is None and run.model.self_paced is None
    methods = TrainingMethods(TrainSection(), [])
    options = BatchOptions(64, 8)
    assert methods.batch_options(options, 0) is options
    assert methods.figures(5, 1) == {}


def test_a_run_that_died_goes_on_as_an_undisturbed_one(tiny):
    """All methods at once, in three epochs; checkpoints are at 6 and 12."""
    steps = ["train.max_steps=16", "train.log_every=1"]
    undisturbed = trainer(tiny, another(tiny), *ALL, *steps)
    whole = Recorder()
    undisturbed.run([whole])
    assert_each_shows_where_it_is(whole.logs, length_range(undisturbed._workspace.shards("train")))
    with pytest.raises(KeyboardInterrupt):
        trainer(tiny, *ALL, *steps).run([Recorder(die_at=14)])
    resumed = trainer(tiny, *ALL, *steps)
    assert resumed.step == 12
    rest = Recorder()
    resumed.run([rest])
    for one, two in zip(undisturbed.model.weights, resumed.model.weights, strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(two))
    names = ("loss", "sampling_probability", "admitted_length", "self_paced_threshold")
    for step, logs in rest.logs.items():
        assert [logs[name] for name in names] == [whole.logs[step][name] for name in names]


def assert_each_shows_where_it_is(logs, lengths):
    logs = list(logs.values())
    sampling = [each["sampling_probability"] for each in logs]
    np.testing.assert_allclose(sampling, np.minimum(np.arange(16) / 20, 0.9), atol=1e-6)
    shortest, longest = lengths
    admitted = [each["admitted_length"] for each in logs]
    assert admitted[0] == shortest + int(0.4 * (longest - shortest))
    assert admitted == sorted(admitted) and admitted[-1] > admitted[0]
    thresholds = np.unique([each["self_paced_threshold"] for each in logs])
    assert len(thresholds) > 1
    np.testing.assert_allclose(thresholds, 6.0 * 1.1 ** np.arange(len(thresholds)), rtol=1e-5)
    shares = [each["kept_share"] for each in logs]
    assert all(0.0 < share < 1.0 for share in shares) and shares[-1] > shares[0]


def test_an_epoch_of_a_curriculum_trains_on_what_it_admits_and_counts_its_steps(tiny):
    run = trainer(tiny, *ALL, "train.max_epochs=3", "train.max_steps=1000")
    shards = run._workspace.shards("train")
    counts = []
    for epoch in range(3):
        options = run._methods.batch_options(run._batch_options, epoch)
        batches = list(run._task.training_batches(shards, options, epoch))
        counts.append(len(batches))
        longest = max(inputs["target"].shape[1] for inputs, _ in batches)
        assert longest <= options.longest
    assert counts == sorted(counts) and counts[0] < counts[-1]
    assert run.total_steps == pytest.approx(sum(counts), abs=3)
    assert run._methods.batch_options(run._batch_options, 2).longest == length_range(shards)[1]


def test_a_threshold_below_every_loss_is_said(tiny):
    run = trainer(tiny, "train.self_paced={kind: hard, threshold: 0.1, growth: 1.0}")
    with pytest.raises(UserError, match="raise train.self_paced.threshold"):
        run.run()


@pytest.mark.parametrize(
    "settings",
    [
        ["train.jit_compile=true"],
        ["train.precision=mixed_bfloat16", "model.decoder.input_feeding=true"],
    ],
    ids=" ".join,
)
def test_methods_go_with_other_settings(tiny, settings):
    recorder = Recorder()
    trainer(tiny, *ALL, "train.max_steps=4", "train.log_every=4", *settings).run([recorder])
    assert np.isfinite(recorder.logs[4]["loss"]) and recorder.logs[4]["kept_share"] > 0


def test_a_task_is_still_learned(tiny):
    recorder = Recorder()
    trainer(tiny, *ALL, "train.max_steps=120", "train.log_every=10").run([recorder])
    assert recorder.logs[120]["loss"] < 0.85 * recorder.logs[10]["loss"]
    assert recorder.logs[120]["kept_share"] > recorder.logs[10]["kept_share"]


def test_gradient_flow_is_measured_at_validations_and_does_not_change_the_run(tiny):
    settings = ["train.max_steps=4", "train.validate_every=2", "train.validation_sentences=2"]
    other = another(tiny)
    measured = trainer(tiny, *settings, "train.gradient_flow={sentences: 2, longest: 3}")
    measured.run()
    with (measured._workspace.logs / "gradient_flow.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["step"] for row in rows} == {"2", "4"}
    assert {row["distance"] for row in rows} == {"1", "2", "3"}
    plain = trainer(tiny, *settings, other)
    plain.run()
    for one, two in zip(measured.model.weights, plain.model.weights, strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(two))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.task=tagging"], "needs a model that reads the words it predicts"),
        (
            [
                "model.task=language_model",
                "data.order=corpus",
                "train.truncated_bptt.segment_length=8",
            ],
            "set decay to none, or segment_length to null",
        ),
    ],
    ids=["tagging", "stream"],
)
def test_scheduled_sampling_is_refused_where_no_own_words_are_read(tiny, settings, message):
    with pytest.raises(UserError, match=message):
        load_experiment(tiny, ["train.scheduled_sampling.decay=linear", *settings])
