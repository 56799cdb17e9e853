"""Answering through the stages: prepared, learned, judged, exported and asked over sockets."""

import io
import json
import random
import shutil

import keras
import numpy as np
import pytest
import rich.console
import tensorflow as tf
import tensorflow_text  # noqa: F401

from models.separators import QUESTION, SENTENCE
from pipeline.evaluate import evaluate
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export
from pipeline.prepare.run import prepare
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from pipeline.train.trainer import Trainer
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions
from serving.warmup import read_warmup

NAMES, PLACES = ["Ann", "Bob", "Eve"], ["garden", "kitchen", "office"]

EXPERIMENT = """\
name: stories
workspace: {folder}/run
seed: 4
data:
  train: [{{format: babi, path: {folder}/train.txt}}]
  valid: [{{format: babi, path: {folder}/valid.txt}}]
  test: [{{format: babi, path: {folder}/test.txt}}]
  cleaning: {{drop_duplicates: false}}
  shards: 2
vocabulary: {{algorithm: word, source_size: 60}}
model:
  task: answering
  cell: gru
  embedding_size: 16
  dropout: 0.0
  initializer_range: 0.3
  encoder: {{units: 16}}
  answering: {{level: sentence, hops: 2}}
train:
  max_steps: 160
  batch_tokens: 1024
  learning_rate: 0.01
  log_every: 40
  validate_every: 80
  samples: 2
  checkpoint_every: 80
export: {{model_name: answering, warmup_requests: 2, max_source_length: 40}}
cluster: {{workers: 1, running_mode: in_memory}}
"""


def write_stories(folder):
    """Each of the three goes somewhere, in any order; where is one of them?"""
    generator = random.Random(8)
    for split, count in (("train", 1200), ("valid", 60), ("test", 60)):
        lines = []
        for _ in range(count):
            where = {name: generator.choice(PLACES) for name in generator.sample(NAMES, 3)}
            lines += [f"{n} {who} is in the {where[who]}." for n, who in enumerate(where, 1)]
            who = generator.choice(NAMES)
            lines.append(f"4 Where is {who} ?\t{where[who]}\t1")
        (folder / f"{split}.txt").write_text("".join(f"{line}\n" for line in lines))
    path = folder / "stories.yaml"
    path.write_text(EXPERIMENT.format(folder=folder))
    return path


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """(experiment, workspace, scores, version folder) of a trained and exported model."""
    experiment = load_experiment(write_stories(tmp_path_factory.mktemp("stories")))
    workspace = workspace_of(experiment)
    console = rich.console.Console(file=io.StringIO(), width=100)
    prepare(experiment, workspace, console)
    Trainer(experiment, workspace).run()
    scores = evaluate(experiment, workspace, console)
    return experiment, workspace, scores, export(experiment, workspace, console)


@pytest.fixture(scope="module")
def model(learned):
    """(task, model) with the best weights."""
    experiment, workspace, *_ = learned
    task = make_task(experiment, workspace)
    built = task.build_model()
    restore_best(workspace, built)
    return task, built


@pytest.fixture(scope="module")
def signatures(learned):
    return tf.saved_model.load(str(learned[-1])).signatures


def test_the_task_is_learned(learned):
    _, workspace, scores, _ = learned
    assert scores["accuracy"] >= 0.95
    answers = scores["answers"]
    assert answers["count"] == 60
    assert answers["accuracy"] == pytest.approx(scores["accuracy"])
    assert [each["label"] for each in answers["labels"]] == PLACES
    assert sum(each["count"] for each in answers["labels"]) == 60
    written = (workspace.scores / "test.hypothesis.txt").read_text().split("\n")
    assert set(written) == {*PLACES, ""}
    assert json.loads((workspace.scores / "test.json").read_text())["answers"] == json.loads(
        json.dumps(answers)
    )


def test_samples_show_what_each_read_looked_at(learned, model):
    from pipeline.batches import read_pairs

    _, workspace, *_ = learned
    task, built = model
    pairs = read_pairs(workspace.shards("valid"))
    judged = task.judge(built).validate(pairs, [], 3)
    assert judged.metrics == {}
    samples = judged.samples
    assert samples.sources == pairs.sources[:3]
    for row, source in enumerate(samples.sources):
        sentences = source.split(f" {QUESTION} ")[0].split(f" {SENTENCE} ")
        assert samples.source_tokens[row] == sentences
        assert samples.target_tokens[row] == ["read 1", "read 2"]
        assert samples.alignments[row].shape == (2, len(sentences))
        np.testing.assert_allclose(samples.alignments[row].sum(-1), 1.0, rtol=1e-5)
    assert task.judge(built).validate(pairs, [], 0).samples is None


STORY = "Ann is in the garden.\nBob is in the office.\r\nEve is in the kitchen."
ASKED = [
    (STORY, "Where is Bob ?"),
    (STORY.replace("\r\n", f" {SENTENCE} "), "Where is\nEve ?"),
    (STORY, ""),
    ("", "Where is Ann ?"),
    ("", ""),
    ("\n\n \n", "Wo ist Anna?"),
    (f"Ann is {QUESTION} in the garden.", f"Where {QUESTION} is {SENTENCE} Ann ?"),
    ("Bob is in the garden.\n" * 30 + STORY, "Where is Bob ?"),
]


def columns(pairs=ASKED):
    return {
        "story": [story for story, _ in pairs],
        "question": [question for _, question in pairs],
    }


def ask(signature, pairs=ASKED):
    asked = {name: tf.constant(texts, tf.string) for name, texts in columns(pairs).items()}
    return {name: value.numpy() for name, value in signature(**asked).items()}


def test_the_export_answers(signatures):
    answer = ask(signatures["serving_default"])
    assert answer["answer"][:2].tolist() == [b"office", b"kitchen"]
    assert {text.decode() for text in answer["answer"]} <= set(PLACES)
    assert ((answer["score"] > 1 / len(PLACES)) & (answer["score"] <= 1)).all()


def test_the_export_answers_as_the_model(learned, model, signatures):
    experiment, *_ = learned
    task, built = model
    joined = [
        f"{story} {QUESTION} {question}"
        for story, question in (
            (f"Ann is in the office. {SENTENCE} Eve is in the garden.", "Where is Eve ?"),
            ("", "Where is Eve ?"),
        )
    ]
    inputs, _ = task.mark(task.source.encode(tf.constant(joined)), tf.ragged.constant([[4], [4]]))
    found = built.answer(**{name: ids.to_tensor() for name, ids in inputs.items()})
    pairs = [("Ann is in the office.\nEve is in the garden.", "Where is Eve ?")]
    pairs.append(("", "Where is Eve ?"))
    np.testing.assert_allclose(
        ask(signatures["serving_default"], pairs)["score"], found.probabilities, rtol=1e-5
    )
    looked = ask(signatures["attention"], pairs)
    np.testing.assert_allclose(looked["weights"], found.weights, atol=1e-6)
    assert looked["story_tokens"].tolist() == [
        [b"Ann is in the office.", b"Eve is in the garden."],
        [b"", b""],
    ]
    assert not looked["weights"][1].any()


def test_rows_are_independent(signatures):
    together = ask(signatures["serving_default"])
    for row, pair in enumerate(ASKED):
        alone = ask(signatures["serving_default"], [pair])
        assert alone["answer"][0] == together["answer"][row]
        np.testing.assert_allclose(alone["score"][0], together["score"][row], rtol=1e-5)


def test_long_stories_keep_their_end(signatures):
    looked = ask(signatures["attention"], ASKED[-1:])
    assert looked["story_tokens"][0, -1] == b"Eve is in the kitchen."
    assert looked["weights"].shape[2] < 33


def test_bytes_that_are_no_text_are_answered(signatures):
    answer = signatures["attention"](
        story=tf.constant([b"Ann \xff is\nin \xc3"]), question=tf.constant([b"\xfe"])
    )
    for text in [*answer["answer"].numpy(), *answer["story_tokens"].numpy().ravel()]:
        text.decode("utf-8")


def test_no_rows(signatures):
    answer = ask(signatures["attention"], [])
    assert answer["answer"].shape == (0,)
    assert answer["weights"].shape[:2] == (0, 2)


def test_warm_up_requests_hold_story_and_question(learned):
    requests = read_warmup(learned[-1])
    assert len(requests) == 2 * 2
    for request in requests:
        texts = {name: request.inputs[name].string_val[0].decode() for name in request.inputs}
        assert set(texts) == {"story", "question"}
        assert texts["question"].startswith("Where is") and QUESTION not in texts["story"]
        assert texts["story"].count(SENTENCE) == 2


def test_both_servers_give_the_answers_of_the_export(learned, signatures):
    base = learned[-1].parent
    options = ServerOptions("answering", base, port=0, rest_api_port=0, announce=str)
    with Server(options) as server:
        for name in ("serving_default", "attention"):
            wanted = ask(signatures[name])
            for protocol in ("grpc", "rest"):
                address = getattr(server.addresses, protocol)
                with Client(address, protocol, "answering") as client:
                    rows = client.predict(columns(), name)
                assert [row["answer"] for row in rows] == [
                    text.decode() for text in wanted["answer"]
                ]
                for output in {"score", "weights"} & set(wanted):
                    found = [row[output] for row in rows]
                    np.testing.assert_allclose(found, wanted[output], rtol=1e-5, atol=1e-7)


def test_the_step_is_compiled_by_xla_over_words(learned, tmp_path):
    """Shapes are few then, and a record still has one label."""
    experiment, workspace, *_ = learned
    path = workspace.root.parent / "stories.yaml"
    changes = [
        f"workspace={tmp_path}/run",
        "train.jit_compile=true",
        "model.answering.level=word",
        "train.max_steps=2",
        "train.log_every=1",
        "train.samples=0",
    ]
    compiled = load_experiment(path, changes)
    shutil.copytree(workspace.data, workspace_of(compiled).data)
    trainer = Trainer(compiled, workspace_of(compiled))
    losses = []

    class Losses(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(logs["loss"])

    trainer.run([Losses()])
    assert len(losses) == 2 and np.isfinite(losses).all()
