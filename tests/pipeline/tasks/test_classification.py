"""Classification from CoNLL-U documents to a served answer."""

import json

import numpy as np
import pytest

from models.separators import SENTENCE
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from pipeline.translate import LocalModel
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions
from tests.pipeline.tasks.labelled import GENRES, answers_of, walk

KEYS = ", unit: document, label: genre"


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return walk(
        tmp_path_factory.mktemp("classification"),
        "classification",
        KEYS,
        "model.classification.pooling=hierarchical",
    )


@pytest.fixture(scope="module")
def task(road):
    return make_task(road[0], road[1])


@pytest.fixture(scope="module")
def judge(road, task):
    model = task.build_model()
    restore_best(road[1], model)
    return task.judge(model)


@pytest.fixture(scope="module")
def local(road):
    model = LocalModel(road[1].export)
    yield model
    model.close()


def test_genres_are_learned(road):
    scores = json.loads((road[1].scores / "test.json").read_text())
    assert scores["labels"]["accuracy"] > 0.9 and scores["labels"]["macro_f1"] > 0.8
    assert scores["accuracy"] == pytest.approx(scores["labels"]["accuracy"])
    total = np.sum(scores["labels"]["confusion"])
    assert total == scores["tokens"] == scores["labels"]["count"] == 15
    assert np.trace(scores["labels"]["confusion"]) == round(15 * scores["accuracy"])
    assert "Predicted as" in road[2]


@pytest.mark.parametrize("fixed", [False, True])
def test_batches_hold_a_row_a_sentence(road, task, fixed):
    options = BatchOptions(256, 1000, fixed)
    sentences = {}
    pairs = read_pairs(road[1].shards("train"))
    for source, label in zip(pairs.source_ids, pairs.target_ids, strict=True):
        parted = " ".join(map(str, source)).split(f" {task.source.piece_id(SENTENCE)} ")
        sentences[tuple(parted)] = label
    for inputs, labels in task.training_batches(road[1].shards("train"), options, 0).take(3):
        for document, label in zip(inputs["source"].numpy(), labels.numpy(), strict=True):
            rows = [" ".join(str(id) for id in row if id) for row in document if row.any()]
            if rows:
                assert sentences[tuple(rows)] == [id for id in label if id]


def test_the_export_answers_as_the_judge_does(road, judge, local):
    pairs = read_pairs(road[1].shards("test"))
    expected = answers_of(judge, pairs)
    rows = local.predict({"text": pairs.sources})
    assert [row["label"] for row in rows] == expected
    # Line breaks part sentences as the corpus's separators do.
    lines = [text.replace(f" {SENTENCE} ", "\r\n") for text in pairs.sources]
    again = local.predict({"text": lines})
    np.testing.assert_allclose(
        [row["score"] for row in again], [row["score"] for row in rows], 1e-5
    )


def test_all_labels_by_their_probability(local):
    texts = ["dear sun rises", "stars", "", "\n\n", "zzz"]
    best = local.predict({"text": texts})
    rows = local.predict({"text": texts}, "probabilities")
    for one, row in zip(best, rows, strict=True):
        assert set(row["labels"]) == set(GENRES)
        assert row["scores"] == sorted(row["scores"], reverse=True)
        assert sum(row["scores"]) == pytest.approx(1.0, abs=1e-5)
        assert (one["label"], one["score"]) == (row["labels"][0], row["scores"][0])
    assert [row["label"] for row in best[:2]] == ["letter", "review"]


def test_attention_to_words_and_sentences(local):
    texts = ["sun rises\nmoon falls dear rain\nstar", "", "forecast"]
    rows = local.predict({"text": texts}, "attention")
    long, empty, single = rows
    words = [[word for word in row if word] for row in long["tokens"]]
    assert words == [["sun", "rises"], ["moon", "falls", "dear", "rain"], ["star"]]
    for row, weights in zip(words, long["weights"], strict=True):
        assert sum(weights) == pytest.approx(1.0, abs=1e-4)
        assert not any(weights[len(row) :])
    assert sum(long["sentence_weights"]) == pytest.approx(1.0, abs=1e-4)
    assert np.argmax(long["sentence_weights"]) == 1 and np.argmax(long["weights"][1]) == 2
    assert not np.any(empty["sentence_weights"]) and not np.any(empty["weights"])
    assert single["tokens"][0][0] == "forecast" and single["sentence_weights"][0] == 1.0


def test_a_server_gives_the_same_rows(road, local):
    base = road[1].export / "classification"
    texts = ["dear sun rises\nmoon falls", "", "stars \u2028 fog"]
    with Server(ServerOptions("classification", base, port=0, rest_api_port=0)) as server:
        for protocol in ("grpc", "rest"):
            address = getattr(server.addresses, protocol)
            with Client(address, protocol, "classification") as client:
                for signature in ("serving_default", "probabilities", "attention"):
                    found = client.predict({"text": texts}, signature)
                    expected = local.predict({"text": texts}, signature)
                    for row, other in zip(found, expected, strict=True):
                        assert set(row) == set(other)
                        for name, value in row.items():
                            _assert_close(value, other[name])


def _assert_close(found, expected):
    if np.array(expected).dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    else:
        assert found == expected


def test_samples_show_the_attention(road, judge):
    pairs = read_pairs(road[1].shards("valid"))
    shown = judge.validate(pairs, [], 2).samples
    assert set(shown.hypotheses) <= set(GENRES)
    for row in range(2):
        source = [word for word in shown.sources[row].split() if word != SENTENCE]
        assert len(shown.source_tokens[row]) == len(source)
        assert shown.target_tokens[row] == ["words", "sentences"]
        assert shown.alignments[row].shape == (2, len(source))


def test_flat_poolings_export_too(road, tmp_path):
    experiment = road[0].model_copy(
        update={
            "model": road[0].model.model_copy(
                update={
                    "classification": road[0].model.classification.model_copy(
                        update={"pooling": "mean"}
                    )
                }
            )
        }
    )
    flat = make_task(experiment, road[1])
    service = flat.service(flat.build_model())
    assert [each.name for each in service.declared] == ["serving_default", "probabilities"]
    shown = flat.judge(flat.build_model()).validate(read_pairs(road[1].shards("valid")), [], 1)
    assert shown.samples.alignments[0].size == 0
    assert service.classify(np.array(["sun"]))["label"].numpy()[0].decode() in GENRES
