"""Batches made inside an exported graph, by the server's own executor."""

import concurrent.futures
import io

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from serving import linter
from serving.export import export_service
from serving.graph_batching import GraphBatching, batched
from serving.server.saved_model import SavedModelSession
from serving.server.status import ServingError
from tests.serving.every_service import captioning

FOREVER = 60_000_000
TEXT = [tf.TensorSpec([None], tf.string, name="text")]
PAIR = [tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([None], tf.int32, name="n")]


class Model(tf.Module):
    """Two signatures over strings and one over numbers, each telling the rows of its run."""

    def __init__(self):
        super().__init__()
        self.scale = tf.Variable(2.0)
        # Padded to the longest of a batch, as texts are.
        self.core = {"upper": self.upper, "lower": self.lower, "scaled": self.scaled}

    def upper(self, text):
        return {"text": tf.strings.upper(text), **rows(text)}

    def lower(self, text):
        return {"text": tf.strings.lower(text), **rows(text)}

    def scaled(self, x, n):
        longest = tf.reduce_max(n)
        table = tf.sequence_mask(n, longest, tf.float32) * (x * self.scale)[:, tf.newaxis]
        return {"table": table, **rows(x)}


def rows(tensor):
    count = tf.shape(tensor)[0]
    return {"rows": tf.fill([count], count)}


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    sessions = []

    def load(**rules):
        folder = tmp_path_factory.mktemp("batched") / "1"
        model = Model()
        inputs = {"upper": TEXT, "lower": TEXT, "scaled": PAIR}
        traced = {
            name: tf.function(
                batched(function, name, inputs[name], GraphBatching(**rules))
            ).get_concrete_function(**{spec.name: spec for spec in inputs[name]})
            for name, function in model.core.items()
        }
        del model.core
        tf.saved_model.save(model, str(folder), signatures=traced)
        assert linter.lint(folder) == []
        sessions.append(SavedModelSession(folder))
        return sessions[-1]

    yield load
    for session in sessions:
        session.close()


def ask(session, name, **inputs):
    signature = session.signatures[name]
    feeds = {signature.inputs[alias].name: np.array(value) for alias, value in inputs.items()}
    names = sorted(signature.outputs)
    values = session.run(feeds, [signature.outputs[alias].name for alias in names])
    return dict(zip(names, (value.tolist() for value in values), strict=True))


def texts(*values):
    return np.array(values, dtype=object)


def together(calls):
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(ask, *call[:-1], **call[-1]) for call in calls]
    return [future.exception() or future.result() for future in futures]


def test_requests_of_a_signature_share_a_run(load):
    session = load(max_batch_size=4, batch_timeout_micros=FOREVER)
    calls = [(session, "upper", {"text": texts(*word)}) for word in (["a"], ["b", "c"], ["d"])]
    assert together(calls) == [
        {"rows": [4], "text": [b"A"]},
        {"rows": [4, 4], "text": [b"B", b"C"]},
        {"rows": [4], "text": [b"D"]},
    ]


def test_signatures_of_one_type_have_a_queue_each(load):
    session = load(max_batch_size=4, batch_timeout_micros=1000)
    calls = [
        (session, ("upper", "lower")[number % 2], {"text": texts(f"Text {number}".encode())})
        for number in range(100)
    ]
    answers = together(calls)
    for number, answer in enumerate(answers):
        text = f"Text {number}".encode()
        assert answer["text"] == [text.lower() if number % 2 else text.upper()]


def test_one_request_that_does_not_fit_fails_alone(load):
    session = load(max_batch_size=4, batch_timeout_micros=FOREVER)
    good = [(session, "upper", {"text": texts(b"a")}) for _ in range(4)]
    bad = (session, "upper", {"text": np.array([[b"x", b"y"]], dtype=object)})
    # The good ones alone fill the batch: it would never run if the bad one stood in it.
    found = together([good[0], good[1], bad, good[2], good[3]])
    assert isinstance(found[2], ServingError)
    assert found[2].code.name == "INVALID_ARGUMENT"
    assert [found[place]["text"] for place in (0, 1, 3, 4)] == [[b"A"]] * 4


def test_inputs_of_different_lengths_fail_alone(load):
    session = load(max_batch_size=2, batch_timeout_micros=FOREVER)
    good = (session, "scaled", {"x": np.float32([1]), "n": np.int32([1])})
    bad = (session, "scaled", {"x": np.float32([1, 2]), "n": np.int32([1])})
    found = together([good, bad, good])
    assert isinstance(found[1], ServingError)
    assert [found[place]["table"] for place in (0, 2)] == [[[2.0]]] * 2


def test_outputs_are_as_long_as_the_longest_of_the_batch(load):
    session = load(max_batch_size=2, batch_timeout_micros=FOREVER)
    calls = [
        (session, "scaled", {"x": np.float32([x]), "n": np.int32([n])}) for x, n in ((1, 1), (3, 2))
    ]
    found = together(calls)
    assert [answer["table"] for answer in found] == [[[2.0, 0.0]], [[6.0, 6.0]]]


def test_long_requests_run_in_parts(load):
    session = load(max_batch_size=4, batch_timeout_micros=1000)
    words = [f"w{number}".encode() for number in range(11)]
    answer = ask(session, "upper", text=texts(*words))
    assert answer["text"] == [word.upper() for word in words]
    assert max(answer["rows"]) <= 4


def test_a_picture_that_cannot_be_read_fails_alone(tmp_path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a dog on a mat"] * 10),
        model_writer=model,
        vocab_size=20,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=3,
    )
    service = captioning(model.getvalue())
    service.declared = service.declared[:1]
    batching = GraphBatching(max_batch_size=3, batch_timeout_micros=FOREVER)
    export_service(service, tmp_path / "1", "captioning", {}, batching)
    session = SavedModelSession(tmp_path / "1")
    picture = tf.io.encode_png(np.full([8, 8, 3], 99, np.uint8)).numpy()
    name = service.declared[0].name
    found = together(
        [
            (session, name, {"image_bytes": texts(content)})
            for content in (picture, b"no picture", picture)
        ]
    )
    assert [answer["error_code"][0] == 0 for answer in found] == [True, False, True]
    assert found[0]["caption"] == found[2]["caption"]
    session.close()
