"""The gRPC API's server: its port, and what of the library is asked for."""

import concurrent.futures
import dataclasses
import pathlib
from collections.abc import Iterator

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import (
    model_service_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from serving.server.grpc_services import ModelService, PredictionService
from serving.server.metrics import Metrics
from serving.server.models import Models
from serving.server.ports import cannot_be_had
from serving.server.profiler import ProfilerService

_PREDICTION = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_MODEL = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
_OPTIONS = (
    # The largest message that gRPC can hold.
    ("grpc.max_receive_message_length", (1 << 31) - 1),
    ("grpc.max_send_message_length", -1),
    # Otherwise a second server could take the same port, and each get some of the requests.
    ("grpc.so_reuseport", 0),
    # A client that connects and says nothing is dropped, and so is one that vanished.
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)
# Calls under way and waiting; further ones are refused with RESOURCE_EXHAUSTED.
_MOST_CALLS = 4096


@dataclasses.dataclass(frozen=True)
class GrpcSettings:
    """What is asked of the gRPC API besides its port.

    Attributes:
        credentials: For TLS; None speaks in the clear.
        socket_path: A unix socket to answer on too.
        channel_arguments: Further settings of the gRPC library, `name=value`, by commas.
        health: The health service is there.
        profiler: The profiler's service is there.
        tensor_content: Predict answers with tensors as bytes.
    """

    credentials: grpc.ServerCredentials | None = None
    socket_path: pathlib.Path | None = None
    channel_arguments: str = ""
    health: bool = True
    profiler: bool = True
    tensor_content: bool = False


class GrpcServer:
    """Serves the gRPC API on one port, from threads of its own."""

    def __init__(
        self,
        models: Models,
        address: str,
        threads: int,
        metrics: Metrics,
        settings: GrpcSettings,
    ):
        """Bind the port; `start` begins to answer.

        Args:
            models: What is served.
            address: `host:port`; port 0 takes a free one.
            threads: Requests answered at once.
            metrics: Counts the requests.
            settings: All else.

        Raises:
            UserError: If the port cannot be had.
        """
        self._health = health.HealthServicer()
        self._server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(threads, "grpc"),
            options=(*_OPTIONS, *_arguments(settings.channel_arguments)),
            maximum_concurrent_rpcs=_MOST_CALLS,
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(models, metrics, settings.tensor_content), self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(models, metrics), self._server
        )
        names = [_PREDICTION, _MODEL, reflection.SERVICE_NAME]
        if settings.health:
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
            names.append(health.SERVICE_NAME)
        if settings.profiler:
            self._server.add_generic_rpc_handlers((ProfilerService().handler(),))
        reflection.enable_server_reflection(names, self._server)
        self.port = _bind(self._server, address, settings.credentials)
        if settings.socket_path:
            _bind(self._server, f"unix:{settings.socket_path.absolute()}", settings.credentials)

    def start(self) -> None:
        """Answer from now on."""
        self._server.start()
        for service in (health.OVERALL_HEALTH, _PREDICTION, _MODEL):
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, drain_seconds: float) -> None:
        """Take no new requests, and return when those under way have been answered.

        Args:
            drain_seconds: Requests that run longer are cancelled.
        """
        self._health.enter_graceful_shutdown()
        self._server.stop(drain_seconds).wait()


def _arguments(arguments: str) -> Iterator[tuple[str, str | int]]:
    """Settings by name; whole numbers are numbers, and all else text, as in the real server."""
    for argument in filter(None, arguments.split(",")):
        name, _, value = argument.partition("=")
        try:
            yield name, int(value)
        except ValueError:
            yield name, value


def _bind(server: grpc.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        if credentials:
            return server.add_secure_port(address, credentials)
        return server.add_insecure_port(address)
    except RuntimeError as error:
        raise cannot_be_had("gRPC", address, str(error)) from None
