"""Warm-up records: requests that a server replays before a model version counts as loaded.

TensorFlow Serving reads them from `assets.extra/tf_serving_warmup_requests` of the version
directory. A record that fails makes the whole version fail to load, so each is held against
the model's signatures before it is written.
"""

import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from models.errors import UserError
from serving.saved_model_graph import SavedModelGraph

FOLDER = "assets.extra"
FILE = "tf_serving_warmup_requests"
MOST_REQUESTS = 1000

Request = Mapping[str, np.ndarray]


def warmup_path(saved_model_dir: str | pathlib.Path) -> pathlib.Path:
    """Where a server looks for the warm-up records of a version directory."""
    return pathlib.Path(saved_model_dir) / FOLDER / FILE


def write_warmup(
    saved_model_dir: str | pathlib.Path,
    requests: Mapping[str, Sequence[Request]],
    model_name: str,
) -> int:
    """Write the warm-up records of a model, whole or not at all.

    Call it before the version directory takes its number: a server may read the folder the
    moment it has one.

    Args:
        saved_model_dir: Folder of the SavedModel.
        requests: For each signature the requests to replay, in order. A request maps every
            input's name to an array of the signature's type and rank; strings may be `str`
            or `bytes`.
        model_name: Name the model will be served under.

    Returns:
        Number of records. With no requests no file is written.

    Raises:
        UserError: If there are more than 1,000, or one does not fit its signature.
    """
    total = sum(len(several) for several in requests.values())
    if total > MOST_REQUESTS:
        raise UserError(
            f"warm-up: {total} requests; TensorFlow Serving replays {MOST_REQUESTS} at most and "
            "refuses a model with more. Lower export.warmup_requests."
        )
    logs = _logs(SavedModelGraph.read(saved_model_dir), requests, model_name)
    if logs:
        _write_records(warmup_path(saved_model_dir), logs)
    return len(logs)


def read_warmup(saved_model_dir: str | pathlib.Path) -> list[predict_pb2.PredictRequest]:
    """Read the warm-up requests of a model, in the order in which they are replayed.

    Args:
        saved_model_dir: Folder of the SavedModel.

    Returns:
        The requests; empty if the model has no warm-up file.

    Raises:
        UserError: If the file is torn, or holds a record other than a Predict request.
    """
    path = warmup_path(saved_model_dir)
    if not path.exists():
        return []
    requests = []
    for number, record in enumerate(_records(path), start=1):
        log = prediction_log_pb2.PredictionLog.FromString(record)
        if log.WhichOneof("log_type") != "predict_log":
            kind = log.WhichOneof("log_type") or "nothing"
            raise UserError(
                f"{path}, record {number}: expected predict_log, found {kind}; write it anew by "
                "exporting again."
            )
        requests.append(log.predict_log.request)
    return requests


def _records(path: pathlib.Path) -> list[bytes]:
    try:
        return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    except tf.errors.DataLossError as error:
        raise UserError(f"{path}: torn ({error.message}); export the model again.") from None


def _write_records(path: pathlib.Path, logs: list[prediction_log_pb2.PredictionLog]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    try:
        with tf.io.TFRecordWriter(str(beside)) as writer:
            for log in logs:
                writer.write(log.SerializeToString())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _logs(
    graph: SavedModelGraph, requests: Mapping[str, Sequence[Request]], model_name: str
) -> list[prediction_log_pb2.PredictionLog]:
    logs = []
    for signature_name, several in requests.items():
        signature = graph.signatures.get(signature_name)
        if signature is None:
            raise UserError(
                f"warm-up: no signature {signature_name!r} in {graph.folder}; "
                f"it has {', '.join(graph.signatures)}."
            )
        for number, request in enumerate(several, start=1):
            log = prediction_log_pb2.PredictionLog()
            predict = log.predict_log.request
            predict.model_spec.name = model_name
            predict.model_spec.signature_name = signature_name
            _fill(predict, request, signature, f"warm-up: {signature_name}, request {number}")
            logs.append(log)
    return logs


def _fill(
    predict: predict_pb2.PredictRequest,
    request: Request,
    signature: meta_graph_pb2.SignatureDef,
    where: str,
) -> None:
    if set(request) != set(signature.inputs):
        raise UserError(
            f"{where}: its inputs are {', '.join(sorted(request)) or 'none'}; the signature "
            f"takes exactly {', '.join(sorted(signature.inputs))}."
        )
    for name in sorted(request):
        info = signature.inputs[name]
        array = _checked(np.asarray(request[name]), info, f"{where}, input {name}")
        predict.inputs[name].CopyFrom(tf.make_tensor_proto(array, dtype=info.dtype))


def _checked(array: np.ndarray, info: meta_graph_pb2.TensorInfo, where: str) -> np.ndarray:
    expected, shape = tf.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape)
    given = tf.string if array.dtype.kind in "OSU" else tf.as_dtype(array.dtype)
    if given != expected:
        raise UserError(f"{where}: holds {given.name}; the signature takes {expected.name}.")
    if not shape.is_compatible_with(array.shape):
        raise UserError(f"{where}: has shape {array.shape}; the signature takes {shape}.")
    return array
