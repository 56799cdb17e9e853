"""Replays the requests that an export carries, so that the first caller does not wait."""

import pathlib
from collections.abc import Iterator
from typing import Any

import grpc
import tensorflow as tf
from google.protobuf import message
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from serving.server.example_methods import CLASSIFY, EXAMPLE_METHODS, REGRESS
from serving.server.inference import ExampleMethod, run_method, run_tasks
from serving.server.predict import DEFAULT_SIGNATURE, predict
from serving.server.saved_model import Runner
from serving.server.status import ServingError, from_tensorflow, invalid_argument
from serving.server.tensors import to_array
from serving.warmup import MOST_REQUESTS, warmup_path


def warm_up(session: Runner, path: pathlib.Path, iterations: int = 1) -> int:
    """Answer every recorded request.

    Args:
        session: The model just loaded.
        path: Folder of its version.
        iterations: How often each is answered, one time after the other.

    Returns:
        The number of requests; 0 when the export carries none.

    Raises:
        ServingError: If a record cannot be read or answered, or there are more than
            `MOST_REQUESTS`. The version must then not be served.
    """
    records = warmup_path(path)
    if not records.exists():
        return 0
    number = 0
    for number, record in enumerate(_records(records), start=1):
        if number > MOST_REQUESTS:
            raise invalid_argument(
                f"Number of warmup records exceeds the maximum ({MOST_REQUESTS}) at {records}"
            )
        for _ in range(iterations):
            _replay(session, record, records)
    return number


def _records(path: pathlib.Path) -> Iterator[bytes]:
    try:
        yield from tf.data.TFRecordDataset([str(path)]).as_numpy_iterator()
    except tf.errors.DataLossError as error:
        raise ServingError(
            grpc.StatusCode.DATA_LOSS,
            f"{error.message}. Please verify your warmup data is in TFRecord format.",
        ) from None
    except tf.errors.OpError as error:
        raise from_tensorflow(error) from None


def _replay(session: Runner, record: bytes, path: pathlib.Path) -> None:
    try:
        log = prediction_log_pb2.PredictionLog.FromString(record)
    except message.DecodeError:
        raise invalid_argument(f"Failed to parse warmup record: {record!r} from {path}") from None
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        _replay_predict(session, log.predict_log.request)
    elif kind == "classify_log":
        _replay_examples(CLASSIFY, session, log.classify_log.request)
    elif kind == "regress_log":
        _replay_examples(REGRESS, session, log.regress_log.request)
    elif kind == "multi_inference_log":
        run_tasks(EXAMPLE_METHODS, session, 0, log.multi_inference_log.request)
    else:
        raise ServingError(
            grpc.StatusCode.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind} in {path}"
        )


def _replay_examples(method: ExampleMethod, session: Runner, request: Any) -> None:
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    run_method(method, session, name, request.input)


def _replay_predict(session: Runner, request: predict_pb2.PredictRequest) -> None:
    predict(
        session,
        request.model_spec.signature_name or DEFAULT_SIGNATURE,
        request.inputs,
        to_array,
        request.output_filter,
    )
