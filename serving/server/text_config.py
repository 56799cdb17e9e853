"""Configuration files in protobuf's text format, and the messages no package brings."""

import pathlib
from typing import TypeVar

from google.protobuf import descriptor_pb2, message, text_format

from models.errors import UserError
from serving.server.described import Fields, message_classes

_Message = TypeVar("_Message", bound=message.Message)
_PACKAGE = "tensorflow.serving"
_Field = descriptor_pb2.FieldDescriptorProto

# TensorFlow Serving's own messages, which its package for Python leaves out.
_MESSAGES: dict[str, Fields] = {
    "SSLConfig": {
        "server_key": (1, _Field.TYPE_STRING),
        "server_cert": (2, _Field.TYPE_STRING),
        "custom_ca": (3, _Field.TYPE_STRING),
        "client_verify": (4, _Field.TYPE_BOOL),
    },
    "PrometheusConfig": {"enable": (1, _Field.TYPE_BOOL), "path": (2, _Field.TYPE_STRING)},
    "MonitoringConfig": {"prometheus_config": (1, f".{_PACKAGE}.PrometheusConfig")},
    "BatchingParameters": {
        "max_batch_size": (1, ".google.protobuf.Int64Value"),
        "batch_timeout_micros": (2, ".google.protobuf.Int64Value"),
        "max_enqueued_batches": (3, ".google.protobuf.Int64Value"),
        "num_batch_threads": (4, ".google.protobuf.Int64Value"),
        "thread_pool_name": (5, ".google.protobuf.StringValue"),
        "allowed_batch_sizes": (6, [_Field.TYPE_INT64]),
        "pad_variable_length_inputs": (7, _Field.TYPE_BOOL),
        "enable_large_batch_splitting": (8, ".google.protobuf.BoolValue"),
        "max_execution_batch_size": (9, ".google.protobuf.Int64Value"),
    },
}


def read_text_proto(asked_by: str, path: pathlib.Path, proto: type[_Message]) -> _Message:
    """Read a configuration file.

    Args:
        asked_by: What named the file, a flag with its dashes, for the message.
        path: The file.
        proto: Type of the message it holds.

    Raises:
        UserError: If it cannot be read or is no such message.
    """
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), proto())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{asked_by}: {path}: cannot be read ({error})") from None
    except text_format.ParseError as error:
        raise UserError(
            f"Error parsing text-format {proto.DESCRIPTOR.full_name}: {asked_by}: Invalid protobuf "
            f"file: '{path}': line {error}"
        ) from None


_CLASSES = message_classes("seqloom/serving/server_config.proto", _PACKAGE, _MESSAGES)
SSLConfig = _CLASSES["SSLConfig"]
MonitoringConfig = _CLASSES["MonitoringConfig"]
BatchingParameters = _CLASSES["BatchingParameters"]
