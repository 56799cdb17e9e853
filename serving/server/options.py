"""What the server is told when it starts, and the mistakes in it that can be seen at once."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

from models.errors import UserError
from serving.server.url_folder import Folder, UrlFolder, check_served

# What a flag of the command line sets an option to.
Value = str | int | float | bool | Folder

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Where a running server listens.

    Attributes:
        grpc: `host:port` of the gRPC API.
        rest: `host:port` of the REST API.
    """

    grpc: str
    rest: str


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Everything the server can be told.

    Attributes:
        model_name: Name that requests give.
        base_path: Folder that holds one folder a version, each named by an integer, or its URL;
            None where a file names the models.
        model_config_file: `ModelServerConfig` in text format; name and base path are not heeded
            beside it, as in TensorFlow Serving.
        model_config_file_poll_wait_seconds: Pause between two looks into that file; 0 reads it
            once.
        allow_version_labels_for_unavailable_models: Lets a new label name a version that does
            not answer yet, as every one does not at the start.
        host: Address both ports are bound to. The default reaches this machine alone.
        port: Port of gRPC; 0 takes a free one.
        rest_api_port: Port of REST; 0 takes a free one.
        grpc_socket_path: A unix socket where gRPC answers too; None for none.
        grpc_channel_arguments: Further settings of the gRPC library, `name=value`, by commas.
        ssl_config_file: `SSLConfig` in text format: gRPC speaks TLS with its key and
            certificate, and with `client_verify` only to clients whose certificate `custom_ca`
            signed. REST stays as it is, as in TensorFlow Serving.
        grpc_health: The health service is there; None leaves that to the server, and this one
            has it.
        profiler: The profiler's service is there.
        tensor_content: Answers of Predict hold their tensors as bytes, not in typed fields.
        monitoring_config_file: `MonitoringConfig` in text format: its Prometheus page is served
            on REST's port.
        enable_batching: Requests of one signature share runs.
        batching_parameters_file: `BatchingParameters` in text format; None for the defaults.
        batching_parameters_of_models: A version's own `batching_params.pbtxt` stands above them.
        file_system_poll_wait_seconds: Pause between two looks into `base_path`; 0 looks once.
        threads: Requests that run at once on each port; further ones wait their turn. Where
            batches are made there are at least enough for two of them.
        rest_api_timeout_in_ms: A REST request that takes longer is answered with 504.
        rest_api_enable_cors_support: Web pages of any site may ask over REST.
        rest_api_max_body_bytes: A longer REST body, packed or unpacked, is refused.
        max_num_load_retries: Further attempts to load a version that failed to load.
        load_retry_interval_seconds: Pause before each of them.
        drain_seconds: Requests still running so long after SIGTERM are given up.
        warmup: The recorded requests of a version are answered before it is served.
        warmup_iterations: How often each of them is.
        saved_model_tags: Tags of the graph to serve, by commas.
        check_method_names: A signature answers only calls of the method that it names.
        session_config_file: TensorFlow's `ConfigProto` in text format; None for the defaults.
        session_threads: Both of the next two, where they are 0.
        intra_op_threads: Threads of one TensorFlow operation; 0 lets TensorFlow choose.
        inter_op_threads: Operations that run at once; 0 lets TensorFlow choose.
        gpu_memory_fraction: Most of the GPU's memory to take; 0 lets TensorFlow choose.
        address_file: Written, as JSON, when both ports answer, and removed at the end. (The
            real TensorFlow Serving finds it written before, and leaves it.)
        announce: Called with the addresses when both ports answer; None prints them.
        other_flags: Flags that TensorFlow Serving alone can follow, by name.
    """

    model_name: str = "default"
    base_path: Folder | None = None
    model_config_file: pathlib.Path | None = None
    model_config_file_poll_wait_seconds: float = 0.0
    allow_version_labels_for_unavailable_models: bool = False
    host: str = "127.0.0.1"
    port: int = 8500
    rest_api_port: int = 8501
    grpc_socket_path: pathlib.Path | None = None
    grpc_channel_arguments: str = ""
    ssl_config_file: pathlib.Path | None = None
    grpc_health: bool | None = None
    profiler: bool = True
    tensor_content: bool = False
    monitoring_config_file: pathlib.Path | None = None
    enable_batching: bool = False
    batching_parameters_file: pathlib.Path | None = None
    batching_parameters_of_models: bool = False
    file_system_poll_wait_seconds: float = 1.0
    threads: int = 16
    rest_api_timeout_in_ms: int = 30_000
    rest_api_enable_cors_support: bool = False
    rest_api_max_body_bytes: int = 64 << 20
    max_num_load_retries: int = 0
    load_retry_interval_seconds: float = 60.0
    drain_seconds: float = 60.0
    warmup: bool = True
    warmup_iterations: int = 1
    saved_model_tags: str = "serve"
    check_method_names: bool = False
    session_config_file: pathlib.Path | None = None
    session_threads: int = 0
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    gpu_memory_fraction: float = 0.0
    address_file: pathlib.Path | None = None
    announce: Callable[[Addresses], None] | None = None
    other_flags: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK_HOSTS


def check(options: ServerOptions) -> None:
    """Refuse options that cannot work, before anything is loaded.

    Raises:
        UserError: Naming the option and what to give instead.
    """
    if options.model_config_file is None:
        _check_base_path(options)
    if options.batching_parameters_file and not options.enable_batching:
        raise UserError(
            "batching_parameters_file is set without setting enable_batching to true; give both"
        )
    if options.port and options.port == options.rest_api_port:
        raise UserError(
            f"port and rest_api_port are both {options.port}: gRPC and REST need a port each"
        )
    for argument in options.grpc_channel_arguments.split(","):
        if argument and "=" not in argument:
            raise UserError(
                f"grpc_channel_arguments: got {argument!r}, expected name=value, several parted by "
                "commas"
            )
    if options.threads < 1:
        raise UserError(f"threads is {options.threads}: at least 1 is needed to answer requests")
    if options.session_threads and options.intra_op_threads and options.inter_op_threads:
        raise UserError(
            "Either configure server_options.tensorflow_session_parallelism or "
            "(server_options.tensorflow_intra_op_parallelism, "
            "server_options.tensorflow_inter_op_parallelism) separately. You cannot configure all."
        )
    if not 0 <= options.gpu_memory_fraction <= 1:
        raise UserError(
            f"per_process_gpu_memory_fraction is {options.gpu_memory_fraction:g}; it must be from "
            "0 to 1"
        )


def _check_base_path(options: ServerOptions) -> None:
    if options.base_path is None:
        raise UserError(
            "neither model_base_path nor model_config_file was given: name the folder of one "
            "model, or the file that lists several"
        )
    if isinstance(options.base_path, UrlFolder):
        check_served(str(options.base_path), "model_base_path")
    elif not options.base_path.is_dir():
        raise UserError(
            f"{options.base_path}: no such folder. It is the base path of the model "
            f"{options.model_name!r} and should hold a folder a version (1, 2, ...): export a "
            "model first, or give the folder that holds its versions"
        )
