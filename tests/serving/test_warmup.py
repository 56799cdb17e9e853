"""Warm-up records: what is written is what a server reads, and what would fail is refused."""

import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from serving.warmup import read_warmup, warmup_path, write_warmup


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "1"
    texts = tf.TensorSpec([None], tf.string, name="text")
    floats = tf.TensorSpec([None, 2], tf.float32, name="x")
    upper = tf.function(lambda text: {"upper": tf.strings.upper(text)}, input_signature=[texts])
    add = tf.function(
        lambda text, x: {"y": x + tf.cast(tf.strings.length(text), tf.float32)[:, None]},
        input_signature=[texts, floats],
    )
    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": upper, "add": add})
    return folder


@pytest.fixture(autouse=True)
def no_records_left(model):
    yield
    warmup_path(model).unlink(missing_ok=True)


def test_requests_are_read_back_in_order(model):
    requests = {
        "serving_default": [{"text": np.array(["Grüße", "早"])}, {"text": np.array([b"x"])}],
        "add": [{"text": np.array(["ab"], dtype=object), "x": np.zeros([1, 2], np.float32)}],
    }
    assert write_warmup(model, requests, "translation") == 3
    first, second, third = read_warmup(model)
    assert [r.model_spec.signature_name for r in (first, second, third)] == [
        "serving_default",
        "serving_default",
        "add",
    ]
    assert first.model_spec.name == "translation"
    assert [text.decode() for text in tf.make_ndarray(first.inputs["text"])] == ["Grüße", "早"]
    assert tf.make_ndarray(second.inputs["text"]).tolist() == [b"x"]
    assert tf.make_ndarray(third.inputs["x"]).shape == (1, 2)


def test_the_model_answers_every_record(model):
    write_warmup(model, {"serving_default": [{"text": np.array(["ab"])}]}, "translation")
    (request,) = read_warmup(model)
    signature = tf.saved_model.load(str(model)).signatures[request.model_spec.signature_name]
    inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
    answer = signature(**{name: tf.constant(array) for name, array in inputs.items()})
    assert answer["upper"].numpy().tolist() == [b"AB"]


def test_the_file_lies_where_servers_look(model):
    write_warmup(model, {"serving_default": [{"text": np.array(["a"])}]}, "translation")
    assert (model / "assets.extra" / "tf_serving_warmup_requests").is_file()
    assert [path.name for path in (model / "assets.extra").iterdir()] == [
        "tf_serving_warmup_requests"
    ]


def test_a_thousand_requests_are_the_most(model):
    request = {"text": np.array(["a"])}
    assert write_warmup(model, {"serving_default": [request] * 1000}, "translation") == 1000
    assert len(read_warmup(model)) == 1000
    with pytest.raises(UserError, match="1001 requests"):
        write_warmup(model, {"serving_default": [request] * 1001}, "translation")
    assert len(read_warmup(model)) == 1000


def test_no_requests_write_no_file(model):
    assert write_warmup(model, {"serving_default": []}, "translation") == 0
    assert not warmup_path(model).exists()
    assert read_warmup(model) == []


@pytest.mark.parametrize(
    ("signature", "request_", "message"),
    [
        ("nbest", {"text": np.array(["a"])}, "no signature 'nbest'.*add, serving_default"),
        ("add", {"text": np.array(["a"])}, "inputs are text; the signature takes exactly text, x"),
        ("serving_default", {"text": np.array([1])}, "holds int64; the signature takes string"),
        ("serving_default", {"text": np.array("a")}, r"shape \(\); the signature takes \(None,\)"),
        (
            "add",
            {"text": np.array(["a"]), "x": np.zeros([1, 2])},
            "holds float64; the signature takes float32",
        ),
    ],
)
def test_requests_that_would_fail_are_refused(model, signature, request_, message):
    with pytest.raises(UserError, match=message):
        write_warmup(model, {signature: [request_]}, "translation")
    assert not warmup_path(model).exists()


def test_torn_records_are_a_users_mistake(model):
    write_warmup(model, {"serving_default": [{"text": np.array(["a"])}] * 3}, "translation")
    path = warmup_path(model)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match="torn"):
        read_warmup(model)
