"""The whole road of visual answering, on questions about pictures of plain colours."""

import base64
import io
import json

import httpx
import numpy as np
import pytest
import rich.console
import tensorflow as tf
from PIL import Image

from models.errors import UserError
from models.separators import QUESTION
from models.vision.neighbours import distinct_neighbours
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.stages import run_stages
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from pipeline.translate import LocalModel
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions
from serving.warmup import read_warmup

COLOURS = ("red", "green", "blue", "white")
# Many epochs in one: what is read before each of them takes longer than to learn from it.
TIMES = 20

EXPERIMENT = """\
name: colours
workspace: {folder}/{form}
data:
  train: [&questions {{format: documents, path: {folder}/questions.jsonl, images: {folder}/pictures,
    source_key: image, question_key: question, target_key: answer}}{again}]
  valid: [*questions]
  cleaning: {{drop_duplicates: false}}
  test: [*questions]
  pictures: {pictures}
  shards: 2
vocabulary: {{algorithm: word}}
model:
  task: visual_answering
  cell: gru
  embedding_size: 8
  dropout: 0.0
  initializer_range: 0.3
  encoder: {{units: 8}}
  visual_answering: {{form: {form}{hops}}}
{decoder}
train:
  max_steps: {steps}
  batch_tokens: 128
  learning_rate: 0.005
  log_every: 40
  validate_every: {steps}
  samples: 2
export: {{model_name: asked, warmup_requests: 1, max_source_length: 6}}
cluster: {{running_mode: in_memory}}
"""


def content_of(colour, kind="PNG", size=(64, 64)):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, kind)
    return file.getvalue()


def write_questions(folder):
    """Two questions about each picture, and one about a torn and a missing one."""
    (folder / "pictures").mkdir()
    records = []
    for colour in COLOURS:
        (folder / "pictures" / f"{colour}.png").write_bytes(content_of(colour))
        other = COLOURS[COLOURS.index(colour) - 1]
        for question, answer in [
            ("what colour is it ?", colour),
            (f"is it {colour} ?", "yes"),
            (f"is it {other} ?", "no"),
        ]:
            records.append({"image": f"{colour}.png", "question": question, "answer": answer})
    (folder / "pictures" / "torn.png").write_bytes(content_of("red")[:50])
    for name in ("torn.png", "nowhere.png"):
        records.append({"image": name, "question": "is it torn ?", "answer": "yes"})
    records.append({"image": "red.png", "question": "", "answer": "yes"})
    lines = "".join(f"{json.dumps(record)}\n" for record in records)
    (folder / "questions.jsonl").write_text(lines)


FORMS = {
    "classifier": {
        "again": ", *questions" * (TIMES - 1),
        "pictures": "{backbone: small, weights: null, fine_tune: true}",
        "hops": ", hops: 2",
        "decoder": "",
        "steps": 200,
    },
    "generator": {
        "again": "",
        "pictures": "{weights: null}",
        "hops": "",
        "decoder": "  decoder: {units: 8}",
        "steps": 2,
    },
}


def run(folder, form):
    """Experiment, workspace, export and what was printed, of all stages."""
    path = folder / f"{form}.yaml"
    path.write_text(EXPERIMENT.format(folder=folder, form=form, **FORMS[form]))
    experiment = load_experiment(path)
    workspace = workspace_of(experiment)
    printed = io.StringIO()
    run_stages(experiment, workspace, rich.console.Console(file=printed, width=120))
    return experiment, workspace, workspace.export / "asked", printed.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    write_questions(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(folder):
    return run(folder, "classifier")


@pytest.fixture(scope="module")
def generator(folder):
    return run(folder, "generator")


ASKED = {
    "image_bytes": [content_of("blue"), b"none", content_of("white", "BMP"), b""],
    "question": ["what colour is it ?", "is it red ?", "is it\nwhite ?", "is it white ?"],
}


def test_records_hold_questions_that_follow_each_other_about_a_picture_stored_once(classifier):
    _, workspace, _, printed = classifier
    found = []
    for shard in workspace.shards("valid"):
        pairs = read_pairs([shard])
        names = [source.split(f" {QUESTION} ")[0] for source in pairs.sources]
        runs = [name for index, name in enumerate(names) if names[index - 1 : index] != [name]]
        assert len(runs) == len(set(runs))
        assert len(set(pairs.pictures)) == len(runs)
        found += pairs.sources
        for name, stored in zip(names, pairs.pictures, strict=True):
            colour = Image.new("RGB", (1, 1), name.removesuffix(".png")).getpixel((0, 0))
            assert (stored.read("pixels") == colour).all()
    assert len(found) == 3 * len(COLOURS)
    learned_from = read_pairs(workspace.shards("train")).sources
    assert sorted(learned_from) == sorted(found * TIMES)
    # A path is no text that pieces are made of.
    assert not [line for line in workspace.vocabulary("source").read_text().split() if "." in line]
    for reason in ("broken_picture", "no_picture", "empty"):
        assert reason in printed


def test_batches_keep_the_questions_about_a_picture_together(classifier):
    experiment, workspace, _, _ = classifier
    task = make_task(experiment, workspace)
    shards = workspace.shards("valid")
    for batches in (
        task.training_batches(shards, BatchOptions(128, 100), epoch=3),
        task.validation_batches(shards, BatchOptions(128, 100)),
    ):
        rows = 0
        for inputs, labels in batches:
            pixels = inputs["pixels"].numpy()
            pictures = {each.tobytes() for each in pixels}
            assert len(distinct_neighbours(inputs["pixels"]).pictures) == len(pictures)
            assert labels.shape == (len(pixels), 1)
            rows += len(pixels)
        assert rows == 3 * len(COLOURS)


def test_the_questions_are_learned(classifier):
    _, workspace, _, _ = classifier
    scores = json.loads((workspace.scores / "test.json").read_text())
    assert scores["accuracy"] == scores["answers"]["accuracy"] == 1.0
    assert scores["answers"]["count"] == 12
    assert {each["label"] for each in scores["answers"]["labels"]} == {*COLOURS, "yes", "no"}


def test_the_export_answers_as_the_model(classifier):
    experiment, workspace, export, _ = classifier
    task = make_task(experiment, workspace)
    model = task.build_model()
    restore_best(workspace, model)
    pairs = read_pairs(workspace.shards("test"))
    inputs = task.judge(model).inputs_of(pairs, range(12))
    wanted = model.answer(inputs)
    names = [source.split(f" {QUESTION} ") for source in pairs.sources]
    given = {
        "image_bytes": [content_of(name.removesuffix(".png")) for name, _ in names],
        "question": [question for _, question in names],
    }
    rows = LocalModel(export).predict(given, "attention")
    np.testing.assert_allclose([row["weights"] for row in rows], wanted.weights, atol=1e-5)
    assert np.shape(rows[0]["weights"]) == (2, 8, 8)
    assert [row["answer"] for row in rows] == pairs.targets


def test_a_broken_picture_fails_alone(classifier, generator):
    for export in (classifier[2], generator[2]):
        model = LocalModel(export)
        rows = model.predict(ASKED, "serving_default")
        codes = [row["error_code"] for row in rows]
        assert codes[0] == codes[2] == 0 and codes[1] and codes[3]
        for row in rows:
            assert not row["error_code"] or (row["answer"], row["score"]) == ("", 0.0)
        alone = {name: values[2:3] for name, values in ASKED.items()}
        (white,) = model.predict(alone, "serving_default")
        assert white["answer"] == rows[2]["answer"]
        assert white["score"] == pytest.approx(rows[2]["score"], abs=1e-4)
        nothing = {name: values[1:2] for name, values in ASKED.items()}
        assert model.predict(nothing, "serving_default")[0]["error_code"] == codes[1]
    assert [row["answer"] for row in LocalModel(classifier[2]).predict(ASKED, "attention")] == [
        "blue", "", "yes", ""
    ]  # fmt: skip


def test_written_answers_have_a_map_a_piece(generator):
    _, workspace, export, _ = generator
    scores = json.loads((workspace.scores / "test.json").read_text())
    assert scores["answers"]["count"] == 12
    rows = LocalModel(export).predict(ASKED, "align")
    for row in rows:
        maps = np.array(row["alignment"])  # [T, 7, 7]
        assert maps.shape == (len(row["target_tokens"]), 7, 7)
        seen = maps.sum((1, 2))
        real = [bool(piece) and not row["error_code"] for piece in row["target_tokens"]]
        assert ((seen > 0) == real).all() and (seen < 1).all()


def test_a_server_answers_like_the_model(classifier):
    export = classifier[2]
    model = LocalModel(export)
    wanted = model.predict(ASKED, "serving_default")
    maps = model.predict(ASKED, "attention")
    with Server(ServerOptions("asked", export, port=0, rest_api_port=0)) as server:
        with Client(server.addresses.grpc, model_name="asked") as client:
            found = client.predict(ASKED, "serving_default")
            drawn = client.predict(ASKED, "attention")
        instances = [
            {"image_bytes": {"b64": base64.b64encode(each).decode()}, "question": question}
            for each, question in zip(*ASKED.values(), strict=True)
        ]
        answer = httpx.post(
            f"http://{server.addresses.rest}/v1/models/asked:predict",
            json={"instances": instances},
            timeout=60,
        )
    assert answer.status_code == 200, answer.text
    for rows in (found, answer.json()["predictions"]):
        for row, each in zip(rows, wanted, strict=True):
            assert (row["answer"], row["error_code"]) == (each["answer"], each["error_code"])
            assert row["score"] == pytest.approx(each["score"], abs=1e-4)
    for row, each in zip(drawn, maps, strict=True):
        np.testing.assert_allclose(row["weights"], each["weights"], atol=1e-5)


def test_warm_up_asks_a_question_of_the_corpus(classifier):
    requests = read_warmup(classifier[2] / "1")
    assert len(requests) == 2
    (question,) = tf.make_ndarray(requests[0].inputs["question"])
    assert question.decode().endswith("?") and QUESTION not in question.decode()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("data.train.0.question_key=null", "set question_key"),
        ("data.train.0.format=tsv", "format 'tsv'"),
        ("data.pictures.fine_tune=false", "set weights to null and fine_tune to true"),
        ("data.pictures.weights=imagenet", "set weights to null and fine_tune to true"),
        ("train.jit_compile=true", "train.jit_compile pads batches"),
        ("search.beam_size=3", "model.visual_answering.form is 'classifier'"),
        ("model.decoder.units=3", "model.visual_answering.form is 'classifier'"),
        ("model.attention.kind=local_monotonic", "goes by a word's place"),
    ],
)
def test_what_cannot_be_is_told(classifier, folder, setting, told):
    with pytest.raises(UserError, match=told):
        experiment = load_experiment(folder / "classifier.yaml", [setting])
        make_task(experiment, classifier[1]).build_model()
