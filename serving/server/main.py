"""The embedded server: its models, both APIs, from the first load to the drained end."""

import contextlib
import functools
import logging
import pathlib
import signal
import socket
import threading
import time
from collections.abc import Iterator

from models.errors import UserError
from serving.server import ports
from serving.server.announcement import announced
from serving.server.batching import BatchingSession
from serving.server.batching_rules import BatchingRules, read_rules, rules_of_model
from serving.server.config_poll import ConfigPoll
from serving.server.grpc_server import GrpcServer, GrpcSettings
from serving.server.metrics import PROMETHEUS_PATH, Metrics
from serving.server.model_config import ModelConfig, read_config_file
from serving.server.model_manager import ModelManager
from serving.server.models import Models
from serving.server.options import Addresses, ServerOptions, check
from serving.server.other_flags import refuse_others
from serving.server.rest_api import RestApi
from serving.server.rest_server import RestServer
from serving.server.saved_model import SavedModelSession
from serving.server.session_rules import SessionRules, session_rules
from serving.server.status import ServingError, invalid_argument
from serving.server.text_config import MonitoringConfig, read_text_proto
from serving.server.tls import server_credentials
from serving.server.versions import LoadRules
from serving.server.warmup import warm_up

_log = logging.getLogger("seqloom.serving")

# After the drain, what still runs is cancelled: this is for what is just ending.
_LAST_PATIENCE_SECONDS = 1.0
# Of one port, for batches of however many rows.
_MOST_THREADS = 128


class Server:
    """A server in this process.

    Example:
        with Server(ServerOptions("translation", pathlib.Path("export/translation"))) as server:
            print(server.addresses.grpc)

    Attributes:
        addresses: Where it listens; None until it does.
    """

    def __init__(self, options: ServerOptions):
        """Check the options; `start` does the rest.

        Raises:
            UserError: If they cannot work.
        """
        check(options)
        refuse_others(options.other_flags)
        self._options = options
        self._metrics = Metrics()
        self._manager = ModelManager(
            _rules(options, self._metrics), options.allow_version_labels_for_unavailable_models
        )
        self._config_poll: ConfigPoll | None = None
        ssl = options.ssl_config_file
        self._grpc_settings = GrpcSettings(
            server_credentials(ssl) if ssl else None,
            options.grpc_socket_path,
            options.grpc_channel_arguments,
            options.grpc_health is not False,
            options.profiler,
            options.tensor_content,
        )
        self._metrics_path = _metrics_path(options)
        self._grpc: GrpcServer | None = None
        self._rest: RestServer | None = None
        self.addresses: Addresses | None = None

    def __enter__(self) -> "Server":
        """Start, and wait until both ports answer."""
        try:
            self.start(threading.Event())
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Drain and stop."""
        self.stop()

    def start(self, stop: threading.Event) -> bool:
        """Load the models, then open both ports.

        A port in use is told before a long load, but both open only when every model answers.

        Args:
            stop: Gives up waiting for the models when set.

        Returns:
            Whether the server answers; False if `stop` came first.

        Raises:
            UserError: If a port cannot be had, or the configuration file is none.
            ServingError: If a model cannot be loaded.
        """
        configs = _configs(self._options)
        host = self._options.host
        with contextlib.ExitStack() as undo:
            rest = undo.enter_context(ports.bind("REST", host, self._options.rest_api_port))
            ports.bind("gRPC", host, self._options.port).close()
            self._manager.start(configs)
            if not self._manager.wait_until_available(stop):
                return False
            self._open(rest)
            undo.pop_all()
        return True

    def stop(self) -> None:
        """Take no new requests, answer those under way, and unload the models."""
        if self._config_poll:
            self._config_poll.stop()
        # Both at once, so that no port answers longer than the other.
        rest = threading.Thread(target=self._rest.stop) if self._rest else None
        if rest:
            rest.start()
        if self._grpc:
            self._grpc.stop(self._options.drain_seconds)
        if rest:
            rest.join()
        self._manager.close(_LAST_PATIENCE_SECONDS)

    def _open(self, rest: socket.socket) -> None:
        options = self._options
        models = Models(self._manager)
        address = ports.joined(options.host, options.port)
        self._grpc = GrpcServer(
            models,
            address,
            _threads(options),
            self._metrics,
            self._grpc_settings,
        )
        self._rest = RestServer(
            RestApi(
                models,
                options.rest_api_timeout_in_ms,
                self._metrics,
                self._metrics_path,
                options.rest_api_enable_cors_support,
            ),
            rest,
            _threads(options),
            options.rest_api_max_body_bytes,
            options.drain_seconds,
        )
        self.addresses = Addresses(
            ports.joined(options.host, self._grpc.port),
            ports.joined(options.host, rest.getsockname()[1]),
        )
        self._grpc.start()
        self._rest.start()
        if options.model_config_file and options.model_config_file_poll_wait_seconds > 0:
            self._config_poll = ConfigPoll(
                self._manager,
                options.model_config_file,
                options.model_config_file_poll_wait_seconds,
            )


def serve(options: ServerOptions, stop: threading.Event | None = None) -> int:
    """Serve until SIGTERM or SIGINT, then drain. A second signal ends the process at once.

    Args:
        options: What to serve, and where.
        stop: Ends the serving too, when set.

    Returns:
        The exit status: 0 after a drained end, 1 if the model cannot be loaded.

    Raises:
        UserError: If the options cannot work, or a port cannot be had.
    """
    stop = stop or threading.Event()
    _log_to_standard_error()
    server = Server(options)
    with _set_by_signals(stop):
        try:
            if server.start(stop) and server.addresses:
                with announced(options, server.addresses):
                    stop.wait()
                _log.info("stopping: answering the requests under way")
        except ServingError as error:
            _log.error("%s", error.message)
            return 1
        finally:
            server.stop()
    return 0


def _metrics_path(options: ServerOptions) -> str | None:
    if not options.monitoring_config_file:
        return None
    flag = "--monitoring_config_file"
    config = read_text_proto(flag, options.monitoring_config_file, MonitoringConfig)
    prometheus = config.prometheus_config
    return (prometheus.path or PROMETHEUS_PATH) if prometheus.enable else None


def _threads(options: ServerOptions) -> int:
    """Threads of a port: one batch runs and one fills, and each of their requests holds one."""
    if not options.enable_batching:
        return options.threads
    rows = read_rules(options.batching_parameters_file).max_batch_size
    return max(options.threads, min(2 * rows, _MOST_THREADS))


def _configs(options: ServerOptions) -> list[ModelConfig]:
    if options.model_config_file:
        try:
            return read_config_file(options.model_config_file)
        except ServingError as error:
            told = f"--model_config_file: {options.model_config_file}: {error.message}"
            raise UserError(told) from None
    assert options.base_path  # `check` saw to it.
    return [ModelConfig(options.model_name, options.base_path)]


def _rules(options: ServerOptions, metrics: Metrics) -> LoadRules:
    batching = read_rules(options.batching_parameters_file) if options.enable_batching else None
    return LoadRules(
        load=functools.partial(_load, options, batching, session_rules(options), metrics),
        poll_seconds=options.file_system_poll_wait_seconds,
        retries=options.max_num_load_retries,
        retry_seconds=options.load_retry_interval_seconds,
    )


def _load(
    options: ServerOptions,
    batching: BatchingRules | None,
    rules: SessionRules,
    metrics: Metrics,
    path: pathlib.Path,
) -> SavedModelSession:
    if batching and options.batching_parameters_of_models:
        try:
            batching = rules_of_model(path, batching)
        except UserError as error:
            raise invalid_argument(str(error)) from None
    session = (
        BatchingSession(path, batching, metrics, rules)
        if batching
        else SavedModelSession(path, rules)
    )
    try:
        started = time.monotonic()
        if options.warmup and warm_up(session, path, max(options.warmup_iterations, 1)):
            metrics.record_warm_up(str(path), started)
    except BaseException:
        session.close()
        raise
    return session


@contextlib.contextmanager
def _set_by_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set the event, once each; only the main thread may ask for it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _log_to_standard_error() -> None:
    """Show what happens, unless the program that calls has set up logging of its own."""
    if not _log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        _log.addHandler(handler)
        _log.setLevel(logging.INFO)
    # Otherwise every request that is no message writes a page of this program's insides.
    logging.getLogger("grpc._common").setLevel(logging.CRITICAL)
