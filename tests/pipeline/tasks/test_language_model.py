"""Language models on the whole road: batches, learning, resuming, scores, export, answers."""

import io
import json
import math
import random
import subprocess
import sys

import keras
import numpy as np
import pytest
import rich.console
import tensorflow as tf
from command import ROOT, seqloom

from models.errors import UserError
from models.line_texts import LineTexts
from models.search.sampling import Draws
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs
from pipeline.evaluate import evaluate
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export
from pipeline.prepare.run import prepare
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from pipeline.train.trainer import Trainer
from pipeline.translate import LocalModel
from serving.client import Client
from serving.generation import Generation
from serving.server.main import Server
from serving.server.options import ServerOptions

EXPERIMENT = """\
name: chain
workspace: {folder}/run
seed: 4
data:
  train: [{{format: text, path: {folder}/train.txt}}]
  valid: [{{format: text, path: {folder}/valid.txt}}]
  test: [{{format: text, path: {folder}/test.txt}}]
  order: corpus
  cleaning: {{drop_duplicates: false}}
  shards: 1
vocabulary: {{algorithm: character}}
model:
  task: language_model
  embedding_size: 16
  dropout: 0.0
  decoder: {{units: 32}}
train:
  max_steps: 150
  batch_tokens: 512
  truncated_bptt: {{segment_length: 16}}
  learning_rate: 0.02
  schedule: {{decay: cosine, decay_start: 30, decay_steps: 120, minimum: 0.001}}
  validate_every: 75
  validation_sentences: 8
  samples: 2
  checkpoint_every: 20
search: {{kind: sampling, temperature: 0.7}}
export: {{model_name: chain, warmup_requests: 2, max_tokens: 50}}
cluster: {{workers: 1, running_mode: in_memory}}
"""

# From a state, a letter or a line's end, to the next one. The first line end is seen from nowhere.
CHAIN = {
    "\n": {"a": 0.5, "b": 0.5},
    "a": {"a": 0.1, "b": 0.6, "c": 0.3},
    "b": {"c": 0.7, "a": 0.2, "\n": 0.1},
    "c": {"a": 0.25, "b": 0.25, "c": 0.25, "\n": 0.25},
}


def entropy_rate():
    """Of the chain, in nats a letter: the rows' entropies, weighted by how often each comes."""
    states = list(CHAIN)
    matrix = np.array([[CHAIN[one].get(other, 0.0) for other in states] for one in states])
    often = np.linalg.matrix_power(matrix, 200)[0]
    rows = [-sum(p * math.log(p) for p in CHAIN[state].values()) for state in states]
    return float(often @ rows)


def write_chain(folder):
    generator = random.Random(7)
    for name, count in (("train", 30_000), ("valid", 4_000), ("test", 4_000)):
        letters, state = [], "\n"
        while len(letters) < count or state != "\n":
            state = generator.choices(list(CHAIN[state]), list(CHAIN[state].values()))[0]
            letters.append(state)
        (folder / f"{name}.txt").write_text("".join(letters))
    path = folder / "chain.yaml"
    path.write_text(EXPERIMENT.format(folder=folder))
    return path


def quiet():
    return rich.console.Console(file=io.StringIO(), width=100)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(path of the experiment, report of its evaluation) of a model of the chain."""
    path = write_chain(tmp_path_factory.mktemp("chain"))
    experiment = load_experiment(path)
    workspace = workspace_of(experiment)
    prepare(experiment, workspace, quiet())
    Trainer(experiment, workspace).run()
    return path, evaluate(experiment, workspace, quiet())


@pytest.fixture(scope="module")
def exported(trained):
    """(task, model, version folder) of it."""
    experiment = load_experiment(trained[0])
    workspace = workspace_of(experiment)
    version = export(experiment, workspace, quiet())
    task = make_task(experiment, workspace)
    model = task.build_model()
    restore_best(workspace, model)
    return task, model, version


@pytest.fixture(scope="module")
def clients(exported):
    """A client by gRPC and one by REST of a server of it."""
    version = exported[2]
    options = ServerOptions("chain", version.parent, port=0, rest_api_port=0)
    with Server(options) as server:
        addresses = {"grpc": server.addresses.grpc, "rest": server.addresses.rest}
        made = [Client(address, name, "chain") for name, address in addresses.items()]
        yield made
        for client in made:
            client.close()


def test_it_learns_a_source_to_nearly_its_entropy(trained):
    """No model can do better on average, and one that knew only the letters does much worse."""
    report = trained[1]
    best = math.exp(entropy_rate())
    assert report["perplexity"] == pytest.approx(best, rel=0.03)
    assert best < 0.8 * 4


def test_scores_by_unit_are_of_one_loss(trained):
    path, report = trained
    lines = (path.parent / "test.txt").read_text().split("\n")[:-1]
    units = report["by_unit"]
    assert units["piece"]["count"] == units["character"]["count"] == report["tokens"]
    assert units["character"]["count"] == sum(len(line) + 1 for line in lines)
    assert units["word"]["count"] == sum(len(line.split()) + 1 for line in lines)
    assert report["unknown_rate"] == 0.0
    for unit in units.values():
        assert unit["bits"] == pytest.approx(math.log2(unit["perplexity"]))
        nats = unit["count"] * math.log(unit["perplexity"])
        assert nats == pytest.approx(report["loss"] * report["tokens"], rel=1e-6)


class Dies(keras.callbacks.Callback):
    def __init__(self, at):
        super().__init__()
        self.at = at

    def on_train_batch_end(self, batch, logs=None):
        if batch == self.at:
            raise KeyboardInterrupt


def states(run):
    found = [*run.model.weights, *run.model.carried, *run.model.optimizer.variables]
    return [np.array(each) for each in found]


def test_a_run_that_died_between_segments_ends_as_an_undisturbed_one(trained, tmp_path):
    """With checkpoints every 20 steps, epochs of 59, and a validation in mid-epoch."""

    def trainer(name):
        changes = ["train.max_steps=70", "train.validate_every=30", f"workspace={tmp_path / name}"]
        experiment = load_experiment(trained[0], changes)
        workspace = workspace_of(experiment)
        if not workspace.data.exists():
            workspace.root.mkdir()
            workspace.data.symlink_to(trained[0].parent / "run/data")
        return Trainer(experiment, workspace)

    undisturbed = trainer("undisturbed")
    undisturbed.run()
    with pytest.raises(KeyboardInterrupt):
        trainer("dies").run([Dies(33)])
    resumed = trainer("dies")
    assert resumed.step == 20
    assert all(np.array(each).any() for each in resumed.model.carried)
    resumed.run()
    for one, other in zip(states(undisturbed), states(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_that_is_not_carried_gives_another_run(trained, exported):
    """So that the test above could fail: the state does matter to the loss."""
    task, model, _ = exported
    workspace = workspace_of(load_experiment(trained[0]))
    options = BatchOptions(512, 1000)
    with_state = without = 0.0
    for inputs, labels in task.validation_batches(workspace.shards("valid"), options):
        seed = tf.zeros([2], tf.int32)
        with_state += float(model.loss_sums(inputs, labels, seed, training=False).loss)
        anew = {**inputs, "continues": tf.zeros_like(inputs["continues"])}
        without += float(model.loss_sums(anew, labels, seed, training=False).loss)
    # Letters depend on the one before alone, so that what is carried matters little once learned.
    assert abs(with_state - without) > 1e-5 * with_state


def test_no_carried_state_is_exported(exported):
    _, model, version = exported
    names = [name for name, _ in tf.train.list_variables(str(version / "variables/variables"))]
    stored = [name for name in names if name.startswith("weights/")]
    assert len(stored) == len(model.weights)
    assert not [name for name in names if "state" in name.lower()]


def test_scores_served_are_those_of_the_model(exported, clients):
    task, model, version = exported
    texts = ["abc", "a\nbc\n", "", "xyz中\xff", "abcabc" * 30]
    vocabulary = LineTexts(task.vocabularies.target, stream=True)
    answer = tf.saved_model.load(str(version)).signatures["serving_default"](
        text=tf.constant(texts)
    )
    for row, text in enumerate(texts):
        labels = tf.concat([vocabulary.encode(tf.constant([text])).to_tensor(), [[3]]], 1)
        target = tf.concat([[[3]], labels[:, :-1]], 1)
        wanted = float(tf.reduce_sum(model.log_probabilities(target, labels)))
        assert float(answer["log_probability"][row]) == pytest.approx(wanted, rel=1e-4)
        assert int(answer["tokens"][row]) == len(text) + 1
        assert float(answer["perplexity"][row]) == pytest.approx(
            math.exp(-wanted / (len(text) + 1)), rel=1e-4
        )


PROMPTS = ["ab", "", "a\nb", "abc\n", "c" * 300, "中"]


def test_python_session_grpc_and_rest_write_the_same_text(exported, clients):
    task, model, version = exported
    generation = Generation(max_tokens=40, temperature=0.9, top_k=3, top_p=0.95, seed=11)
    texts = LineTexts(task.vocabularies.target, stream=True)
    prompts = texts.encode(tf.constant(PROMPTS))[:, -200:].to_tensor()
    rows = len(PROMPTS)
    draws = Draws(
        tf.fill([rows], 0.9), tf.fill([rows], 3), tf.fill([rows], 0.95), 11 + tf.range(rows)
    )
    found = model.generate(prompts, tf.fill([rows], 40), draws)
    expected = [text.decode() for text in texts.continuation(prompts, found.ids[:, 0]).numpy()]
    local = LocalModel(version)
    answers = [local.generate(PROMPTS, generation)]
    local.close()
    answers += [client.generate(PROMPTS, generation) for client in clients]
    for each in answers:
        assert [one.text for one in each] == expected
        assert [one.tokens for one in each] == [40] * rows
        np.testing.assert_allclose([one.score for one in each], found.scores[:, 0], rtol=1e-4)
    # A stream goes on through the ends of lines.
    assert all("\n" in text for text in expected)


def test_seeds_and_batches(clients):
    client = clients[0]

    def texts(count, **options):
        return [one.text for one in client.generate(["ab"] * count, Generation(**options))]

    first = texts(3, seed=5)
    assert first == texts(3, seed=5) and len(set(first)) == 3
    assert texts(1, seed=6) == first[1:2]
    (cold,) = client.generate(["ab"], Generation(temperature=0.0, seed=1))
    for other in ({"temperature": 0.0, "seed": 2}, {"top_k": 1}, {"top_p": 0.0}):
        assert texts(1, **other) == [cold.text]
    (short,) = client.generate(["ab"], Generation(max_tokens=7, temperature=0.0))
    assert cold.text.startswith(short.text) and short.tokens == 7
    (none,) = client.generate(["ab"], Generation(max_tokens=0))
    assert (none.text, none.tokens, none.score) == ("", 0, 0.0)
    (most,) = client.generate(["ab"], Generation(max_tokens=10_000))
    assert most.tokens == 50


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 1.5},
        {"top_k": -1},
        {"max_tokens": 2**31},
        {"seed": -1},
    ],
    ids=str,
)
def test_what_cannot_be_is_told_before_a_server_is_asked(wrong):
    with Client("127.0.0.1:1", model_name="chain") as client:
        with pytest.raises(UserError, match=next(iter(wrong))):
            client.generate(["ab"], Generation(**wrong))


def test_the_command_gives_the_same_by_every_way(exported, clients):
    version = exported[2]
    flags = ("--temperature", "0.9", "--seed", "3", "--max-tokens", "20", "--model-name", "chain")
    ways = [
        ("--model", str(version.parent)),
        ("--server", clients[0]._transport.address),
        ("--rest", "--server", clients[1]._transport.address.removeprefix("http://")),
    ]
    expected = [
        prompt + found.text
        for prompt, found in zip(
            ["ab", "c"],
            clients[0].generate(["ab", "c"], Generation(20, 0.9, seed=3)),
            strict=True,
        )
    ]
    for way in ways:
        outcome = seqloom("generate", *way, *flags, "--prompt", "ab", "--prompt", "c")
        assert outcome.stdout.decode() == "".join(f"{text}\n" for text in expected)
    lines = seqloom("generate", *ways[1], *flags, "--batch-size", "1", stdin=b"ab\r\nc\n")
    assert lines.stdout.decode().split("\n") == [
        *(" ".join(text.splitlines()) for text in expected),
        "",
    ]


def test_mistakes_are_told_in_one_message(exported):
    version = exported[2]
    outcome = seqloom("generate", "--model", "x", "--server", "y:1", status=2)
    assert b"keep one" in outcome.stderr and b"Traceback" not in outcome.stderr
    local = LocalModel(version)
    with pytest.raises(UserError, match="another task's model"):
        local.translate(["a"])
    local.close()


def test_asking_a_server_imports_no_tensorflow():
    program = (
        "import sys, pipeline.generate; "
        "print([name for name in ('tensorflow', 'keras') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_samples_are_continuations(trained, exported):
    task, model, _ = exported
    workspace = workspace_of(load_experiment(trained[0]))
    pairs = read_pairs(workspace.shards("valid"), 30)
    judge = task.judge(model)
    samples = judge.validate(pairs, [], 3).samples
    assert len(samples.sources) == len(samples.references) == len(samples.hypotheses) == 3
    lines = [text for text in pairs.targets if len(text) > 1]
    wholes = [a + b for a, b in zip(samples.sources, samples.references, strict=True)]
    assert wholes == lines[:3]
    assert judge.validate(pairs, [], 3).samples.hypotheses == samples.hypotheses
    assert judge.validate(pairs, [], 0).samples is None


@pytest.mark.parametrize(("order", "first"), [("corpus", 3), ("shuffled", 2)])
def test_lines_apart_are_begun_and_ended(trained, tmp_path, order, first):
    """Without truncated BPTT, and without the order of the corpus."""
    experiment = load_experiment(
        trained[0],
        [
            f"workspace={tmp_path}/run",
            f"data.order={order}",
            f"data.train.0.path={trained[0].parent}/valid.txt",
            "train.truncated_bptt.segment_length=null",
            "train.max_steps=3",
            "train.validate_every=3",
            "train.loss={kind: nce, noise_words: 8}",
            "model.language_model.architecture=window",
        ],
    )
    workspace = workspace_of(experiment)
    prepare(experiment, workspace, quiet())
    trainer = Trainer(experiment, workspace)
    task, model = trainer._task, trainer.model
    assert not model.carried
    shards = workspace.shards("train")
    inputs, labels = next(iter(task.training_batches(shards, trainer._batch_options, 0)))
    assert set(inputs) == {"target"}
    assert (inputs["target"].numpy()[:, 0] == first).all()
    for row in labels.numpy():
        assert row[np.count_nonzero(row) - 1] == 3
    assert math.isfinite(trainer.run().best)
    answer = task.service(model).generate(
        tf.constant(["ab"]),
        *(tf.constant([each]) for each in (50, 1.0, 0, 1.0, 1)),
    )
    assert (b"\n" in answer["text"].numpy()[0]) == (order == "corpus")


@pytest.mark.parametrize(
    "settings",
    [
        ["train.jit_compile=true"],
        ["train.precision=mixed_float16", "model.cell=gru", "model.decoder.layers=2"],
        ["model.language_model={architecture: window, window: 2}", "train.loss.kind=sampled"],
        ["model.language_model.tie_embeddings=true", "model.embedding_size=32"],
    ],
    ids=" ".join,
)
def test_one_line_changes_how_a_stream_is_read(trained, tmp_path, settings):
    changes = ["train.max_steps=3", "train.validate_every=3", f"workspace={tmp_path}/run"]
    experiment = load_experiment(trained[0], [*changes, *settings])
    workspace = workspace_of(experiment)
    workspace.root.mkdir()
    workspace.data.symlink_to(trained[0].parent / "run/data")
    trainer = Trainer(experiment, workspace)
    assert trainer.run().best < 100.0
    if "window" not in str(settings):
        assert all(np.array(each, np.float32).any() for each in trainer.model.carried)


def test_reading_on_needs_the_order_of_the_corpus(trained):
    with pytest.raises(UserError, match="set it to corpus, or segment_length to null"):
        load_experiment(trained[0], ["data.order=shuffled"])


def test_reports_are_json(trained):
    report = json.loads((trained[0].parent / "run/scores/test.json").read_text())
    assert set(report["by_unit"]) == {"piece", "word", "character", "byte"}
