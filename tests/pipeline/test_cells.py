"""Cells named by one line of an experiment: trained, resumed, exported and asked."""

import io
import shutil

import keras
import numpy as np
import pytest
import rich.console
import tensorflow as tf
import tensorflow_text  # noqa: F401

from models.tokenizers import with_end
from pipeline.assembly import search_options
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from pipeline.train.trainer import Trainer

TEXTS = ["sun moon", "rain rain snow fog", "", "sky"]
SHORT = (
    "train.max_steps=3",
    "train.checkpoint_every=2",
    "train.validation_sentences=2",
    "train.samples=0",
    "export.warmup_requests=0",
)


def copied(folder, to):
    """Path of the tiny experiment in a copy of a folder."""
    shutil.copytree(folder, to)
    path = to / "tiny.yaml"
    path.write_text(path.read_text().replace(f"{folder}/run", f"{to}/run"), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "lines",
    [
        ["model.cell=peephole_projected_lstm", "model.cell_options.projection_units=12"],
        ["model.cell=layer_norm_gru", "model.encoder.merge=sum", "model.decoder.kind=bahdanau"],
        ["model.cell=weight_norm_lstm", "model.decoder.input_feeding=true"],
    ],
    ids=lambda lines: lines[0].partition("=")[2],
)
def test_an_exported_model_answers_as_the_trained_one(lines, prepared_folder, tmp_path):
    path = copied(prepared_folder, tmp_path / "run")
    experiment = load_experiment(path, [*SHORT, *lines])
    workspace = workspace_of(experiment)
    Trainer(experiment, workspace).run()
    version = export(experiment, workspace, rich.console.Console(file=io.StringIO()))
    task = make_task(experiment, workspace)
    model = task.build_model()
    restore_best(workspace, model)
    source = with_end(task.vocabularies.source.encode(tf.constant(TEXTS))).to_tensor()
    found = model.translate(source, search_options(experiment))
    signature = tf.saved_model.load(str(version)).signatures["serving_default"]
    answer = signature(text=tf.constant(TEXTS))
    texts = task.vocabularies.target.decode(found.ids[:, 0, :]).numpy().tolist()
    assert answer["translation"].numpy().tolist() == texts
    np.testing.assert_allclose(answer["score"], found.scores[:, 0], rtol=1e-5)


class Dies(keras.callbacks.Callback):
    """Ends a run as a crash would, at the third step; the second left a checkpoint."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            raise KeyboardInterrupt


def test_a_run_with_variational_dropout_resumes_exactly(prepared_folder, tmp_path):
    """Its encoder reads whole sequences and its decoder steps."""
    lines = [
        *SHORT,
        "model.decoder.kind=bahdanau",
        "model.variational_dropout.inputs=0.3",
        "model.variational_dropout.recurrent=0.3",
    ]
    runs = []
    for name, callbacks in (("whole", []), ("broken", [Dies()])):
        path = copied(prepared_folder, tmp_path / name)
        experiment = load_experiment(path, lines)
        run = Trainer(experiment, workspace_of(experiment))
        if callbacks:
            with pytest.raises(KeyboardInterrupt):
                run.run(callbacks)
            run = Trainer(experiment, workspace_of(experiment))
            assert run.step == 2
        run.run()
        runs.append(run.model)
    for one, other in zip(*(model.variables for model in runs), strict=True):
        np.testing.assert_array_equal(one, other)
