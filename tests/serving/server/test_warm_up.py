"""What a version does with the recorded requests in its folder before it answers."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from serving.server import warmup
from serving.server.saved_model import SavedModelSession
from serving.server.status import ServingError
from serving.warmup import warmup_path, write_warmup


@pytest.fixture
def folder(tmp_path, tiny_exports):
    return shutil.copytree(tiny_exports[""], tmp_path / "1")


@pytest.fixture
def session(folder):
    session = SavedModelSession(folder)
    yield session
    session.close()


def write(folder, records):
    warmup_path(folder).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(warmup_path(folder))) as writer:
        for record in records:
            writer.write(record)


def log(text=b"a", signature="", alias="text"):
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = signature
    request.inputs[alias].CopyFrom(tf.make_tensor_proto([text]))
    predict_log = prediction_log_pb2.PredictLog(request=request)
    return prediction_log_pb2.PredictionLog(predict_log=predict_log).SerializeToString()


def test_every_record_is_run_once(folder, session, monkeypatch):
    runs = []
    run = session.run
    monkeypatch.setattr(session, "run", lambda *arguments: runs.append(1) or run(*arguments))
    write(folder, [log(), log(signature="nbest"), log(b"c")])
    assert warmup.warm_up(session, folder) == 3
    assert len(runs) == 3


def test_what_the_exporter_writes_is_replayed(folder, session):
    text = {"text": np.array([b"a", b"b"], dtype=object)}
    pair = {"source": text["text"], "target": text["text"]}
    write_warmup(folder, {"serving_default": [text], "score": [pair, pair]}, "translation")
    assert warmup.warm_up(session, folder) == 3


def test_a_folder_without_records_needs_none(folder, session):
    assert warmup.warm_up(session, folder) == 0


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([log(), log(signature="none")], 'Serving signature key "none" not found.'),
        ([log(alias="words")], "Signature input alias: text"),
        ([b"\xff no message"], "Failed to parse warmup record"),
        (
            [
                prediction_log_pb2.PredictionLog(
                    session_run_log=prediction_log_pb2.SessionRunLog()
                ).SerializeToString()
            ],
            "Unsupported log_type for warmup: session_run_log",
        ),
        ([log(b"")] * 1001, r"Number of warmup records exceeds the maximum \(1000\)"),
    ],
)
def test_a_bad_record_fails_the_load(folder, session, records, message):
    write(folder, records)
    with pytest.raises(ServingError, match=message):
        warmup.warm_up(session, folder)


def test_a_file_that_holds_no_records_fails_the_load(folder, session):
    write(folder, [])
    warmup_path(folder).write_bytes(b"this is no TFRecord file at all")
    with pytest.raises(ServingError, match="Please verify your warmup data is in TFRecord format"):
        warmup.warm_up(session, folder)
