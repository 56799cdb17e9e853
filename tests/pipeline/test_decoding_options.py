"""Options of decoding, from the experiment to what a server answers."""

import io
import shutil

import numpy as np
import pytest
import rich.console
import tensorflow as tf
from command import seqloom

from models.tokenizers import with_end
from pipeline.assembly import search_options
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions

TEXTS = ["sun moon", "rain rain snow fog", "", "wind", "sky " * 20]
PREFIXES = ["moon", "", "fog", "sun sun", "  star\t"]
RULES = "search={beam_size: 3, coverage_penalty: 0.5, no_repeat_ngram_size: 2, min_length: 5}"


@pytest.fixture(scope="module")
def served(trained_folder, tmp_path_factory):
    """(options of the search, model, vocabularies, client, server, version) of a served model."""
    folder = tmp_path_factory.mktemp("ruled")
    shutil.copytree(trained_folder, folder, dirs_exist_ok=True)
    path = folder / "tiny.yaml"
    path.write_text(path.read_text().replace(f"{trained_folder}/run", f"{folder}/run"))
    experiment = load_experiment(path, [RULES])
    workspace = workspace_of(experiment)
    version = export(experiment, workspace, rich.console.Console(file=io.StringIO()))
    task = make_task(experiment, workspace)
    model = task.build_model()
    restore_best(workspace, model)
    options = ServerOptions("translation", version.parent, port=0, rest_api_port=0)
    with Server(options) as server, Client(server.addresses.grpc) as client:
        yield search_options(experiment), model, task.vocabularies, client, server, version


def sources(vocabularies):
    return with_end(vocabularies.source.encode(tf.constant(TEXTS))).to_tensor()


def assert_answers(answers, found, vocabularies):
    texts = vocabularies.target.decode(found.ids[:, 0, :]).numpy().tolist()
    assert [each.text.encode() for each in answers] == texts
    scores = [each.score for each in answers]
    np.testing.assert_allclose(scores, found.scores[:, 0], rtol=1e-4)


def test_a_server_keeps_the_rules_of_the_experiment(served):
    options, model, vocabularies, client, *_ = served
    assert options.coverage_penalty and options.no_repeat_ngram_size and options.min_length
    found = model.translate(sources(vocabularies), options)
    assert_answers(client.translate(TEXTS), found, vocabularies)
    lengths = found.lengths[:, 0].numpy()
    assert lengths[2] == 1 and (np.delete(lengths, 2) > options.min_length).all()
    for words in found.ids[:, 0].numpy().tolist():
        pairs = [pair for pair in zip(words, words[1:], strict=False) if all(pair)]
        assert len(set(pairs)) == len(pairs)


def test_a_server_completes_a_prefix_as_the_model_does(served):
    options, model, vocabularies, client, *_ = served
    begun = vocabularies.target.encode(tf.constant(PREFIXES)).to_tensor()
    found = model.translate(sources(vocabularies), options, begun)
    answers = client.complete(list(zip(TEXTS, PREFIXES, strict=True)))
    assert_answers(answers, found, vocabularies)
    for answer, prefix in zip(answers, PREFIXES, strict=True):
        assert answer.text.startswith(prefix.strip())
    assert answers[2].text == "fog"  # Of nothing there is no more to say.


def test_no_prefix_is_completed_as_it_is_translated(served):
    client = served[3]
    free = client.translate(TEXTS)
    answers = client.complete([(text, "") for text in TEXTS])
    assert [each.text for each in answers] == [each.text for each in free]
    np.testing.assert_allclose(
        [each.score for each in answers], [each.score for each in free], rtol=1e-4
    )


def test_the_command_begins_every_translation_with_a_prefix_by_every_way(served):
    *_, client, server, version = served
    asked = ["", *(text for text in TEXTS if text)]
    answers = client.complete([(text, "fog") for text in asked[1:]])
    expected = ["", *(each.text for each in answers)]
    assert all(text.startswith("fog") for text in expected[1:])
    ways = [
        ("--model", str(version)),
        ("--server", server.addresses.grpc),
        ("--rest", "--server", server.addresses.rest),
    ]
    lines = "".join(f"{text}\n" for text in asked).encode()
    for way in ways:
        outcome = seqloom("translate", *way, "--prefix", "fog", stdin=lines)
        assert outcome.stdout.decode().split("\n") == [*expected, ""]
