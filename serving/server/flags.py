"""TensorFlow Serving's own flags, so that a deployment changes the program and nothing else."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from models.errors import UserError
from serving.server.flag_values import (
    FILE,
    FOLDER,
    FRACTION,
    MICROSECONDS,
    NAME,
    NUMBER,
    SECONDS,
    SWITCH,
    TEXT,
    Kind,
)
from serving.server.other_flags import OTHER_FLAGS


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag.

    Attributes:
        option: The field of `ServerOptions` that it sets.
        kind: What it takes.
    """

    option: str
    kind: Kind


def parse(arguments: Sequence[str]) -> dict[str, Any]:
    """Read flags, each `--flag=value`; one that switches something on needs no value.

    Args:
        arguments: The words of the command line.

    Returns:
        Values by field of `ServerOptions`; of a flag given twice the last.

    Raises:
        UserError: If there is no such flag, or a value is not of its type.
    """
    given: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or name not in FLAGS.keys() | OTHER_FLAGS.keys():
            known = ", ".join(f"--{name}" for name in [*FLAGS, *OTHER_FLAGS])
            raise UserError(
                f"unknown argument: {argument}; known besides seqloom's own are {known}"
            )
        if name in FLAGS:
            given[FLAGS[name].option] = _value(name, FLAGS[name].kind, text if equals else None)
        else:
            others[name] = _value(name, OTHER_FLAGS[name].kind, text if equals else None)
    return {**given, "other_flags": others} if others else given


def _value(name: str, kind: Kind, text: str | None) -> Any:
    text = kind.bare if text is None else text
    try:
        if text is None:
            raise ValueError
        return kind.read(text)
    except ValueError:
        told = f"--{name}: got {text or ''!r}, expected --{name}={kind.expected}"
        raise UserError(told) from None


FLAGS = {
    "model_name": Flag("model_name", NAME),
    "model_base_path": Flag("base_path", FOLDER),
    "model_config_file": Flag("model_config_file", FILE),
    "model_config_file_poll_wait_seconds": Flag("model_config_file_poll_wait_seconds", SECONDS),
    "allow_version_labels_for_unavailable_models": Flag(
        "allow_version_labels_for_unavailable_models", SWITCH
    ),
    "file_system_poll_wait_seconds": Flag("file_system_poll_wait_seconds", SECONDS),
    "max_num_load_retries": Flag("max_num_load_retries", NUMBER),
    "load_retry_interval_micros": Flag("load_retry_interval_seconds", MICROSECONDS),
    "saved_model_tags": Flag("saved_model_tags", NAME),
    "enable_signature_method_name_check": Flag("check_method_names", SWITCH),
    "enable_model_warmup": Flag("warmup", SWITCH),
    "num_request_iterations_for_warmup": Flag("warmup_iterations", NUMBER),
    "rest_api_timeout_in_ms": Flag("rest_api_timeout_in_ms", NUMBER),
    # Of each port; one number for both, the last given.
    "rest_api_num_threads": Flag("threads", NUMBER),
    "grpc_max_threads": Flag("threads", NUMBER),
    "rest_api_enable_cors_support": Flag("rest_api_enable_cors_support", SWITCH),
    "enable_batching": Flag("enable_batching", SWITCH),
    "batching_parameters_file": Flag("batching_parameters_file", FILE),
    "enable_per_model_batching_parameters": Flag("batching_parameters_of_models", SWITCH),
    "grpc_socket_path": Flag("grpc_socket_path", FILE),
    "grpc_channel_arguments": Flag("grpc_channel_arguments", TEXT),
    "enable_grpc_healthcheck_service": Flag("grpc_health", SWITCH),
    "enable_profiler": Flag("profiler", SWITCH),
    "enable_serialization_as_tensor_content": Flag("tensor_content", SWITCH),
    "ssl_config_file": Flag("ssl_config_file", FILE),
    "monitoring_config_file": Flag("monitoring_config_file", FILE),
    "tensorflow_session_config_file": Flag("session_config_file", FILE),
    "tensorflow_session_parallelism": Flag("session_threads", NUMBER),
    "tensorflow_intra_op_parallelism": Flag("intra_op_threads", NUMBER),
    "tensorflow_inter_op_parallelism": Flag("inter_op_threads", NUMBER),
    "per_process_gpu_memory_fraction": Flag("gpu_memory_fraction", FRACTION),
}
