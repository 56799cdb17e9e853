"""Tagging from CoNLL-U to a served answer, and any signature asked by `seqloom predict`."""

import json

import numpy as np
import pytest
import tensorflow as tf
from command import seqloom

from models.errors import UserError
from models.special_ids import UNKNOWN_ID
from pipeline.batch_plan import BatchOptions
from pipeline.batches import Pairs, read_pairs
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from pipeline.translate import LocalModel
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions
from tests.pipeline.tasks.labelled import answers_of, walk

TEXTS = ["sun rises", "", "Abcde falls moon shines", "   ", "Feed", "a\u00a0b\tfades\nrain"]


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return walk(tmp_path_factory.mktemp("tagging"), "tagging", "")


@pytest.fixture(scope="module")
def tagged(road):
    """The task and its trained model."""
    experiment, workspace, _ = road
    task = make_task(experiment, workspace)
    model = task.build_model()
    restore_best(workspace, model)
    return task, model


@pytest.fixture(scope="module")
def local(road):
    model = LocalModel(road[1].export)
    yield model
    model.close()


@pytest.fixture(scope="module")
def server(road):
    base = road[1].export / "tagging"
    with Server(ServerOptions("tagging", base, port=0, rest_api_port=0)) as running:
        yield running


def words_of(row):
    return [word for word in row["tokens"] if word], [tag for tag in row["tags"] if tag]


def test_tags_are_learned_those_of_unknown_words_too(road):
    scores = json.loads((road[1].scores / "test.json").read_text())
    assert scores["tags"]["accuracy"] > 0.97 and scores["tags"]["macro_f1"] > 0.97
    assert scores["accuracy"] == pytest.approx(scores["tags"]["accuracy"])
    assert scores["unknown_words"] > 5 and scores["unknown_accuracy"] > 0.9
    assert scores["sentences_right"] > 0.8
    assert {each["label"] for each in scores["tags"]["labels"]} == {"NOUN", "VERB"}
    assert "macro-F1" in road[2] and "words that the vocabulary does not hold" in road[2]


def test_batches_hold_the_spelling_of_each_word(road, tagged):
    experiment, workspace, _ = road
    task, _ = tagged
    shards = workspace.shards("train")
    batches = task.training_batches(shards, BatchOptions(128, 1000), 0)
    inputs, labels = next(iter(batches))
    ids, characters = inputs["source"].numpy(), inputs["characters"].numpy()
    assert ids.shape == labels.shape == characters.shape[:2]
    np.testing.assert_array_equal(characters.any(2), ids != 0)
    pieces = task.source.pieces(inputs["source"]).numpy()
    for word, spelled in zip(pieces[ids > UNKNOWN_ID], characters[ids > UNKNOWN_ID], strict=True):
        assert bytes(byte - 4 for byte in spelled if byte) == word
    spelled = characters[ids == UNKNOWN_ID]
    assert len({tuple(each) for each in spelled}) > 3


def test_fixed_shapes_pad_the_spelling_too(road, tagged):
    task, _ = tagged
    shards = road[1].shards("train")
    options = BatchOptions(128, 1000, fixed_shapes=True)
    for inputs, labels in task.training_batches(shards, options, 0).take(5):
        rows, length, letters = inputs["characters"].shape
        assert labels.shape == inputs["source"].shape == (rows, length)
        assert length % 8 == letters % 8 == 0 and rows * length <= 128


def test_ids_cut_to_the_limit_keep_their_own_spelling(tagged):
    task, _ = tagged
    texts = tf.constant(["sun falls", "x y z"])
    ids = tf.ragged.constant([[5], [1, 1]], tf.int32)
    inputs, _ = task.mark(ids, ids, texts)
    assert inputs["characters"].to_list() == [
        [[byte + 4 for byte in b"sun"]],
        [[ord("x") + 4], [ord("y") + 4]],
    ]


def test_the_export_answers_as_the_judge_does(road, tagged, local):
    task, model = tagged
    pairs = read_pairs(road[1].shards("test"))
    expected = answers_of(task.judge(model), pairs)
    rows = local.predict({"text": pairs.sources})
    assert [" ".join(words_of(row)[1]) for row in rows] == expected
    assert [words_of(row)[0] for row in rows] == [each.split() for each in pairs.sources]


def test_odd_texts(local):
    rows = local.predict({"text": TEXTS})
    found = [words_of(row) for row in rows]
    assert [words for words, _ in found] == [
        ["sun", "rises"],
        [],
        ["Abcde", "falls", "moon", "shines"],
        [],
        ["Feed"],
        ["a\u00a0b", "fades", "rain"],
    ]
    assert all(len(words) == len(tags) for words, tags in found)
    assert found[0][1] == ["NOUN", "VERB"] and found[2][1] == ["NOUN", "VERB"] * 2
    for row, (words, _) in zip(rows, found, strict=True):
        assert all(0.0 < score <= 1.0 for score in row["scores"][: len(words)])
        assert not any(row["scores"][len(words) :])
    assert local.predict({"text": [""]}) == [{"tokens": [], "tags": [], "scores": []}]
    assert local.predict({"text": ["Feed"]})[0]["tags"] == found[4][1]


def test_rows_do_not_see_each_other(local):
    together = local.predict({"text": TEXTS})
    for text, row in zip(TEXTS, together, strict=True):
        (alone,) = local.predict({"text": [text]})
        assert words_of(alone) == words_of(row)
        np.testing.assert_allclose(alone["scores"], row["scores"][: len(alone["scores"])], 1e-4)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_a_server_gives_the_same_rows(server, local, protocol):
    texts = [*TEXTS, b"\xff sun".decode("utf-8", "replace")]
    with Client(getattr(server.addresses, protocol), protocol, "tagging") as client:
        found = client.predict({"text": texts})
        assert client.predict({"text": []}) == []
        (empty,) = client.predict({"text": [""]})
        assert empty == {"tokens": [], "tags": [], "scores": []}
    for row, expected in zip(found, local.predict({"text": texts}), strict=True):
        assert row["tokens"] == expected["tokens"] and row["tags"] == expected["tags"]
        np.testing.assert_allclose(row["scores"], expected["scores"], 1e-4)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
@pytest.mark.parametrize(
    ("inputs", "signature", "message"),
    [
        ({"text": ["a"]}, "nbest", "has no signature 'nbest'"),
        ({"story": ["a"]}, "serving_default", "the server refuses what it was asked"),
        ({"text": [1]}, "serving_default", "the server refuses what it was asked"),
        ({"text": ["a"], "more": []}, "serving_default", r"inputs have \[0, 1\] rows"),
        ({}, "serving_default", "have no rows"),
    ],
)
def test_requests_that_cannot_be_right(server, protocol, inputs, signature, message):
    with Client(getattr(server.addresses, protocol), protocol, "tagging") as client:
        with pytest.raises(UserError, match=message):
            client.predict(inputs, signature)


def test_the_command_prints_a_row_a_line(road, server, local):
    lines = b"sun rises\n\nAbcde falls\n"
    ways = (
        ("--model", str(road[1].export)),
        ("--server", server.addresses.grpc, "--model-name", "tagging"),
        ("--rest", "--server", server.addresses.rest, "--model-name", "tagging"),
    )
    answers = [seqloom("predict", *way, stdin=lines).stdout for way in ways]
    assert answers[0] == answers[1] == answers[2]
    rows = [json.loads(line) for line in answers[0].splitlines()]
    assert [words_of(row)[0] for row in rows] == [["sun", "rises"], [], ["Abcde", "falls"]]
    assert [words_of(row)[1] for row in rows] == [["NOUN", "VERB"], [], ["NOUN", "VERB"]]


def test_samples_are_tagged(road, tagged):
    task, model = tagged
    pairs = read_pairs(road[1].shards("valid"))
    shown = task.judge(model).validate(pairs, [], 2).samples
    assert shown.sources == pairs.sources[:2] and shown.references == pairs.targets[:2]
    assert [len(each.split()) for each in shown.hypotheses] == [
        len(each.split()) for each in pairs.sources[:2]
    ]
    assert task.judge(model).validate(Pairs([], [], [], []), [], 0).samples is None
