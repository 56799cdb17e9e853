"""Runs that answer together: evaluated, exported and served as their models are in Python."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.ensemble import EnsembleModel
from models.errors import UserError
from models.tokenizers import with_begin, with_end
from pipeline.assembly import search_options
from pipeline.best_model import load_best
from pipeline.evaluate import evaluate, evaluation_fingerprint
from pipeline.experiment_file import load_experiment, record_experiment, workspace_of
from pipeline.export import export, export_fingerprint, is_exported
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import Checkpoints, Progress
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions
from tests.models.examples import randomize

TEXTS = ["sun moon", "rain rain snow fog", "", "wind", "sky " * 20]
# Built as the run itself is, and otherwise.
OTHERS = {
    "same": ["train.learning_rate=0.03"],
    "other": ["model.cell=gru", "model.decoder.units=16", "model.attention.score=additive"],
}


@pytest.fixture(scope="module")
def folder(trained_folder, tmp_path_factory):
    """A folder with a trained run, and two others of its data, with any weights as their best."""
    folder = tmp_path_factory.mktemp("ensemble")
    shutil.copytree(trained_folder, folder, dirs_exist_ok=True)
    path = folder / "tiny.yaml"
    path.write_text(path.read_text().replace(f"{trained_folder}/run", f"{folder}/run"))
    for seed, (name, settings) in enumerate(OTHERS.items(), 1):
        (folder / name).mkdir()
        (folder / name / "data").symlink_to(folder / "run/data")
        experiment = load_experiment(path, [*settings, f"workspace={folder}/{name}"])
        workspace = workspace_of(experiment)
        record_experiment(experiment, workspace)
        model = randomize(make_task(experiment, workspace).build_model(), seed, 0.3)
        progress = Progress()
        progress.step.assign(seed)
        Checkpoints(workspace, model, keras.optimizers.SGD(), progress, 1).save_best()
    return folder


def together(folder, *places, settings=()):
    """The experiment of an ensemble, and its workspace."""
    named = ", ".join(str(folder / place) for place in places)
    experiment = load_experiment(folder / "tiny.yaml", [f"search.ensemble=[{named}]", *settings])
    return experiment, workspace_of(experiment)


def load(folder, *places):
    experiment, workspace = together(folder, *places)
    return load_best(make_task(experiment, workspace), workspace)


def test_a_run_alone_is_its_model(folder):
    best = load(folder)
    assert not isinstance(best.model, EnsembleModel)
    assert best.step and best.others == {}


def test_each_run_takes_part_with_its_own_weights(folder):
    best = load(folder, *OTHERS)
    members = [load_alone(folder, place) for place in ("run", *OTHERS)]
    steps = {str(folder / name): members[index + 1][1] for index, name in enumerate(OTHERS)}
    assert best.others == steps
    for found, (wanted, _) in zip(best.model.members, members, strict=True):
        for one, other in zip(found.get_weights(), wanted.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)


def load_alone(folder, place):
    experiment = load_experiment(folder / place / "experiment.yaml")
    workspace = workspace_of(experiment)
    best = load_best(make_task(experiment, workspace), workspace)
    return best.model, best.step


def test_scores_are_of_all_and_count_as_others_once_a_run_changes(folder, console):
    experiment, workspace = together(folder, "same")
    report = evaluate(experiment, workspace, console)
    assert report["ensemble_steps"].keys() == {str(folder / "same")}
    task = make_task(experiment, workspace)
    model = load_best(task, workspace).model
    sources = (workspace.scores / "test.source.txt").read_text().splitlines()
    ids = with_end(task.source.encode(tf.constant(sources))).to_tensor()
    found = task.vocabularies.target.decode(
        model.translate(ids, search_options(experiment)).ids[:, 0]
    )
    hypotheses = (workspace.scores / "test.hypothesis.txt").read_text().splitlines()
    assert [text.decode() for text in found.numpy()] == hypotheses
    assert report["loss"] == pytest.approx(loss_of(task, model, ids, workspace), rel=1e-4)
    fingerprints = [
        function(*each)
        for function in (evaluation_fingerprint, export_fingerprint)
        for each in (together(folder), (experiment, workspace), together(folder, "other"))
    ]
    assert len(set(fingerprints)) == len(fingerprints)
    assert json.loads((workspace.scores / "test.json").read_text())["fingerprint"] in fingerprints


def loss_of(task, model, ids, workspace):
    """Nats a piece of the references."""
    references = (workspace.scores / "test.reference.txt").read_text().splitlines()
    targets = task.vocabularies.target.encode(tf.constant(references))
    inputs = {"source": ids, "target": with_begin(targets).to_tensor()}
    labels = with_end(targets).to_tensor()
    sums = model.loss_sums(inputs, labels, tf.zeros([2], tf.int32), training=False)
    return float(sums.loss / sums.tokens)


def test_an_ensemble_is_served_as_it_answers_in_python(folder, console):
    experiment, workspace = together(folder, "same")
    version = export(experiment, workspace, console)
    assert is_exported(experiment, workspace) and not is_exported(*together(folder))
    assert f"with step 1 of {folder}/same" in console.file.getvalue().replace("\n", "")
    task = make_task(experiment, workspace)
    model = load_best(task, workspace).model
    source = with_end(task.source.encode(tf.constant(TEXTS))).to_tensor()
    target = task.vocabularies.target
    found = model.translate(source, search_options(experiment))
    texts = [text.decode() for text in target.decode(found.ids[:, 0]).numpy()]
    options = ServerOptions("translation", version.parent, port=0, rest_api_port=0)
    with Server(options) as server, Client(server.addresses.grpc) as client:
        answers = client.translate(TEXTS)
        aligned = client.align(TEXTS[:2])
        (scored,) = client.score([("sun moon", "fog")])
    assert [each.text for each in answers] == texts
    np.testing.assert_allclose([each.score for each in answers], found.scores[:, 0], rtol=1e-4)
    given = forced(task, TEXTS[0], texts[0])
    mean = np.mean([each.force(*given).weights for each in model.members], 0)
    np.testing.assert_allclose(aligned[0].weights, mean[0], atol=1e-5)
    wanted = model.force(*forced(task, "sun moon", "fog")).log_probabilities
    assert scored.log_probability == pytest.approx(float(tf.reduce_sum(wanted)), rel=1e-4)


def forced(task, source, target):
    """What a given translation is forced by."""
    ids = task.vocabularies.target.encode(tf.constant([target]))
    begun, labels = with_begin(ids).to_tensor(), with_end(ids).to_tensor()
    return with_end(task.source.encode(tf.constant([source]))).to_tensor(), begun, labels


@pytest.fixture
def refusal(folder):
    """A function that gives the message by which other runs are refused."""

    def told(*places, settings=()):
        experiment, workspace = together(folder, *places, settings=settings)
        with pytest.raises(UserError) as raised:
            load_best(make_task(experiment, workspace), workspace)
        return str(raised.value)

    return told


@pytest.fixture
def untrained(folder, tmp_path):
    """A run with prepared data alone."""
    shutil.copytree(folder / "run/data", tmp_path / "untrained/data")
    experiment = load_experiment(folder / "tiny.yaml", [f"workspace={tmp_path}/untrained"])
    record_experiment(experiment, workspace_of(experiment))
    return tmp_path / "untrained"


def change(path, old, new):
    assert path.read_text().count(old) >= 1
    path.write_text(path.read_text().replace(old, new, 1))


def test_runs_are_others_each_once_and_trained(refusal, untrained):
    assert "run: the run itself, which takes part anyway" in refusal("run")
    assert "same: named twice" in refusal("same", "other", "run/../same")
    assert "none: no run is there" in refusal("none")
    assert f"{untrained}/train/best: no trained model yet" in refusal(untrained)
    (untrained / "data").rename(untrained / "elsewhere")  # data.folder says where it is
    change(untrained / "experiment.yaml", "folder: null", f"folder: {untrained}/elsewhere")
    assert f"{untrained}/train/best: no trained model yet" in refusal(untrained)


def test_a_run_of_another_vocabulary_or_task_is_refused(refusal, untrained):
    manifest = json.loads((untrained / "data/manifest.json").read_text())
    manifest["vocabularies"]["target"]["hash"] = "0"
    (untrained / "data/manifest.json").write_text(json.dumps(manifest))
    assert f"{untrained}: its target vocabulary is another" in refusal(untrained)
    (untrained / "experiment.yaml").write_text(
        "{name: x, data: {train: [{format: tsv, path: x}]}, model: {task: classification}}"
    )
    message = refusal(untrained)
    assert f"{untrained}: a run of the task 'classification'" in message
    assert "'translation'" in message


def test_a_run_that_learned_from_what_is_held_out_is_refused(refusal, untrained):
    def shares(test):
        return [f"data.hold_out={{valid: 0.1, test: {test}}}", "data.valid=[]", "data.test=[]"]

    assert "held out other sentences" in refusal(untrained, settings=shares(0.1))
    experiment = load_experiment(untrained / "experiment.yaml", shares(0.1))
    record_experiment(experiment, workspace_of(experiment))
    assert "held out other sentences" in refusal(untrained, settings=shares(0.2))
    assert "no trained model yet" in refusal(untrained, settings=shares(0.1))
    change(untrained / "experiment.yaml", "seed: 5", "seed: 6")
    assert "held out other sentences" in refusal(untrained, settings=shares(0.1))
