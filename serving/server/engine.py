"""Chooses between the real TensorFlow Serving and the embedded server.

Nothing of TensorFlow is imported before the embedded server is chosen.
"""

import dataclasses
import importlib.metadata
import math
import os
import pathlib
import shutil
import subprocess
import sys

from models.errors import UserError
from serving.server import ports
from serving.server.announcement import announce
from serving.server.options import Addresses, ServerOptions, Value, check

PROGRAM = "tensorflow_model_server"


def serve(options: ServerOptions, engine: str = "auto") -> int:
    """Serve with the engine asked for.

    Args:
        options: What to serve, and where.
        engine: `embedded`; `tensorflow`, the program `tensorflow_model_server`, which takes the
            place of this process; or `auto`, that program where it is on PATH.

    Returns:
        The exit status of the embedded server. The other engine does not return.

    Raises:
        UserError: If the options cannot work, or the engine is not there.
    """
    program = find_program(engine)
    if program:
        _become(program, options)
    from serving.server import main

    return main.serve(options)


def find_program(engine: str) -> pathlib.Path | None:
    """The program that the engine asks for; None for the embedded server.

    Raises:
        UserError: If `tensorflow` is asked for and not on PATH.
    """
    if engine == "embedded":
        return None
    found = shutil.which(PROGRAM)
    if not found and engine == "tensorflow":
        raise UserError(
            f"engine tensorflow: {PROGRAM} is not on PATH. It is in the image "
            "tensorflow/serving:2.20.0, and in the Debian package tensorflow-model-server of "
            "TensorFlow Serving's own archive; or use the engine embedded, which needs nothing"
        )
    return pathlib.Path(found) if found else None


def versions(engine: str) -> str:
    """What `--version` tells: a line of the server, and one of the library that runs graphs.

    Raises:
        UserError: As of `find_program`.
    """
    program = find_program(engine)
    if program:
        return subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True).stdout
    release = importlib.metadata.version("seqloom")
    library = importlib.metadata.version("tensorflow")
    return f"TensorFlow ModelServer: embedded in seqloom {release}\nTensorFlow Library: {library}\n"


def arguments(options: ServerOptions) -> list[str]:
    """The flags of `tensorflow_model_server` that say what the options say."""
    # That program counts whole seconds.
    poll = math.ceil(options.file_system_poll_wait_seconds)
    return [
        f"--port={options.port}",
        f"--rest_api_port={options.rest_api_port}",
        *_model_arguments(options),
        *_file_arguments(options),
        *_thread_arguments(options),
        *_retry_arguments(options),
        *_changed_arguments(options),
        f"--file_system_poll_wait_seconds={poll}",
        f"--rest_api_timeout_in_ms={options.rest_api_timeout_in_ms}",
        f"--rest_api_enable_cors_support={_text(options.rest_api_enable_cors_support)}",
        f"--max_num_load_retries={options.max_num_load_retries}",
        # Of these too, 0 lets TensorFlow choose.
        f"--tensorflow_intra_op_parallelism={options.intra_op_threads}",
        f"--tensorflow_inter_op_parallelism={options.inter_op_threads}",
        *(f"--{name}={_text(value)}" for name, value in options.other_flags.items()),
    ]


def _model_arguments(options: ServerOptions) -> list[str]:
    if options.model_config_file is None:
        assert options.base_path is not None  # `check` saw to it.
        return [
            f"--model_name={options.model_name}",
            f"--model_base_path={options.base_path.absolute()}",
        ]
    poll = math.ceil(options.model_config_file_poll_wait_seconds)
    allow = _text(options.allow_version_labels_for_unavailable_models)
    return [
        f"--model_config_file={options.model_config_file}",
        f"--model_config_file_poll_wait_seconds={poll}",
        f"--allow_version_labels_for_unavailable_models={allow}",
    ]


def _file_arguments(options: ServerOptions) -> list[str]:
    names = (
        "grpc_socket_path",
        "ssl_config_file",
        "monitoring_config_file",
        "batching_parameters_file",
    )
    given = {name: getattr(options, name) for name in names}
    batching = ["--enable_batching=true"] if options.enable_batching else []
    return batching + [f"--{name}={path}" for name, path in given.items() if path is not None]


def _thread_arguments(options: ServerOptions) -> list[str]:
    if options.threads == ServerOptions.threads:
        return []  # That program's own numbers follow the processors.
    return [f"--{flag}={options.threads}" for flag in ("rest_api_num_threads", "grpc_max_threads")]


def _retry_arguments(options: ServerOptions) -> list[str]:
    if options.load_retry_interval_seconds == ServerOptions.load_retry_interval_seconds:
        return []
    return [f"--load_retry_interval_micros={round(options.load_retry_interval_seconds * 1e6)}"]


def _changed_arguments(options: ServerOptions) -> list[str]:
    """Options whose flag has another name and the same default, where they were changed."""
    flags = {
        "grpc_channel_arguments": "grpc_channel_arguments",
        "grpc_health": "enable_grpc_healthcheck_service",
        "profiler": "enable_profiler",
        "tensor_content": "enable_serialization_as_tensor_content",
        "batching_parameters_of_models": "enable_per_model_batching_parameters",
        "warmup": "enable_model_warmup",
        "warmup_iterations": "num_request_iterations_for_warmup",
        "saved_model_tags": "saved_model_tags",
        "check_method_names": "enable_signature_method_name_check",
        "session_config_file": "tensorflow_session_config_file",
        "session_threads": "tensorflow_session_parallelism",
        "gpu_memory_fraction": "per_process_gpu_memory_fraction",
    }
    defaults = ServerOptions()
    return [
        f"--{flag}={_text(getattr(options, name))}"
        for name, flag in flags.items()
        if getattr(options, name) != getattr(defaults, name)
    ]


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _become(program: pathlib.Path, options: ServerOptions) -> None:
    check(options)
    # To that program port 0 means no port.
    options = dataclasses.replace(
        options,
        port=options.port or _free_port("gRPC"),
        rest_api_port=options.rest_api_port or _free_port("REST"),
    )
    if options.on_loopback:
        print(
            f"warning: {PROGRAM} has no flag for the host: it listens on every address, not on "
            f"{options.host} alone",
            file=sys.stderr,
        )
    print(f"Starting {program}, which answers when the model is loaded", flush=True)
    # This process ends here, so the addresses are told before they answer.
    everywhere = dataclasses.replace(options, host="0.0.0.0")
    announce(
        everywhere,
        Addresses(f"localhost:{options.port}", f"localhost:{options.rest_api_port}"),
    )
    os.execv(program, [str(program), *arguments(options)])


def _free_port(api: str) -> int:
    with ports.bind(api, "0.0.0.0", 0) as listener:
        return listener.getsockname()[1]
