"""TensorFlow Serving's own flags, so that a deployment changes the program and nothing else."""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Sequence

from models.errors import UserError

# Those of the other program that this one takes, by name, each with what reads its value.
Value = str | int | float | bool | pathlib.Path


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag.

    Attributes:
        option: The field of `ServerOptions` that it sets.
        read: Turns its value into the field's; raises ValueError.
        expected: What it takes, for the message.
    """

    option: str
    read: Callable[[str], Value]
    expected: str


def parse(arguments: Sequence[str]) -> dict[str, Value]:
    """Read flags, each `--flag=value`; one that switches something on needs no value.

    Args:
        arguments: The words of the command line.

    Returns:
        Values by field of `ServerOptions`; of a flag given twice the last.

    Raises:
        UserError: If there is no such flag, or a value is not of its type.
    """
    given: dict[str, Value] = {}
    for argument in arguments:
        name, equals, text = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or name not in FLAGS:
            known = ", ".join(f"--{name}" for name in FLAGS)
            raise UserError(
                f"unknown argument: {argument}; known besides seqloom's own are {known}"
            )
        flag = FLAGS[name]
        if not equals and flag.read is _boolean:
            text = "true"
        try:
            given[flag.option] = flag.read(text)
        except ValueError:
            raise UserError(f"--{name}: got {text!r}, expected --{name}={flag.expected}") from None
    return given


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "1", "false", "0"):
        raise ValueError(text)
    return text.lower() in ("true", "1")


def _path(text: str) -> pathlib.Path:
    if not text:
        raise ValueError(text)
    return pathlib.Path(text)


def _name(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def _count(text: str) -> int:
    if int(text) < 0:
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError(text)
    return seconds


def _micros(text: str) -> float:
    return _count(text) / 1e6


_NUMBER, _FILE, _SWITCH = "WHOLE_NUMBER", "FILE", "true or false"

FLAGS = {
    "model_name": Flag("model_name", _name, "NAME"),
    "model_base_path": Flag("base_path", _path, "FOLDER"),
    "model_config_file": Flag("model_config_file", _path, _FILE),
    "model_config_file_poll_wait_seconds": Flag(
        "model_config_file_poll_wait_seconds", _seconds, "SECONDS"
    ),
    "allow_version_labels_for_unavailable_models": Flag(
        "allow_version_labels_for_unavailable_models", _boolean, _SWITCH
    ),
    "file_system_poll_wait_seconds": Flag("file_system_poll_wait_seconds", _seconds, "SECONDS"),
    "max_num_load_retries": Flag("max_num_load_retries", _count, _NUMBER),
    "load_retry_interval_micros": Flag("load_retry_interval_seconds", _micros, _NUMBER),
    "rest_api_timeout_in_ms": Flag("rest_api_timeout_in_ms", _count, _NUMBER),
    # Of each port; one number for both, the last given.
    "rest_api_num_threads": Flag("threads", _count, _NUMBER),
    "grpc_max_threads": Flag("threads", _count, _NUMBER),
    "rest_api_enable_cors_support": Flag("rest_api_enable_cors_support", _boolean, _SWITCH),
    "enable_batching": Flag("enable_batching", _boolean, _SWITCH),
    "batching_parameters_file": Flag("batching_parameters_file", _path, _FILE),
    "grpc_socket_path": Flag("grpc_socket_path", _path, _FILE),
    "grpc_channel_arguments": Flag("grpc_channel_arguments", _name, "NAME=VALUE,..."),
    "ssl_config_file": Flag("ssl_config_file", _path, _FILE),
    "monitoring_config_file": Flag("monitoring_config_file", _path, _FILE),
    "tensorflow_intra_op_parallelism": Flag("intra_op_threads", _count, _NUMBER),
    "tensorflow_inter_op_parallelism": Flag("inter_op_threads", _count, _NUMBER),
}
