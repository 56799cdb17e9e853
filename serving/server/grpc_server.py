"""The gRPC API: prediction and model services, health, and reflection."""

import concurrent.futures
import dataclasses
import functools
import logging
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf import message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from serving.server.example_methods import CLASSIFY, EXAMPLE_METHODS, REGRESS
from serving.server.inference import ExampleMethod, run_method, run_tasks
from serving.server.measured import measured
from serving.server.metrics import Metrics
from serving.server.models import Models
from serving.server.ports import cannot_be_had
from serving.server.predict import DEFAULT_SIGNATURE, predict
from serving.server.profiler import ProfilerService
from serving.server.status import ServingError, invalid_argument
from serving.server.tensors import to_array, to_content, to_proto

_log = logging.getLogger("seqloom.serving")

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
            ModelService(models), self._server
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


def _answered(method: Callable) -> Callable:
    """Turn what a method raises into the status of its call."""

    @functools.wraps(method)
    def call(self: Any, request: message.Message, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except ServingError as error:
            return context.abort(error.code, error.grpc_details)
        except Exception as error:
            _log.exception("%s failed", method.__name__)
            return context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

    return call


def _counted(method: Callable) -> Callable:
    """Count the calls of a method, by the model they ask and the status they get."""

    @functools.wraps(method)
    def call(self: Any, request: Any, context: grpc.ServicerContext) -> Any:
        started = time.monotonic()
        status = grpc.StatusCode.OK
        try:
            return method(self, request, context)
        except Exception:
            # `abort` has set the code, and raises to end the call.
            status = context.code() or grpc.StatusCode.UNKNOWN
            raise
        finally:
            asked = request.tasks[0] if getattr(request, "tasks", None) else request
            name = asked.model_spec.name if hasattr(asked, "model_spec") else ""
            self.metrics.record(name, method.__name__, "GRPC", status.name, started)

    return call


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict, Classify, Regress, MultiInference and GetModelMetadata."""

    def __init__(self, models: Models, metrics: Metrics, tensor_content: bool = False):
        """Answer for these models.

        Args:
            models: What is served.
            metrics: Counts the requests.
            tensor_content: Predict answers with tensors as bytes.
        """
        self._models = models
        self.metrics = metrics
        self._write = to_content if tensor_content else to_proto

    @_counted
    @_answered
    def Predict(  # noqa: N802  the name is the protocol's
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        """Run a signature."""
        _require_model_spec(request)
        with self._models.acquire(request.model_spec) as version:
            name = request.model_spec.signature_name or DEFAULT_SIGNATURE
            outputs = predict(
                measured(version, self.metrics, request.model_spec.name, "Predict"),
                name,
                request.inputs,
                to_array,
                request.output_filter,
                _timeout_in_ms(context),
            )
        response = predict_pb2.PredictResponse()
        response.model_spec.name = request.model_spec.name
        response.model_spec.signature_name = name
        response.model_spec.version.value = version.number
        for alias, array in outputs.items():
            self._write(array, response.outputs[alias])
        return response

    @_counted
    @_answered
    def Classify(  # noqa: N802
        self, request: classification_pb2.ClassificationRequest, context: grpc.ServicerContext
    ) -> classification_pb2.ClassificationResponse:
        """Classify examples."""
        response = classification_pb2.ClassificationResponse()
        return self._infer(CLASSIFY, request, response, context)

    @_counted
    @_answered
    def Regress(  # noqa: N802
        self, request: regression_pb2.RegressionRequest, context: grpc.ServicerContext
    ) -> regression_pb2.RegressionResponse:
        """Give a number for each example."""
        return self._infer(REGRESS, request, regression_pb2.RegressionResponse(), context)

    @_counted
    @_answered
    def MultiInference(  # noqa: N802
        self, request: inference_pb2.MultiInferenceRequest, context: grpc.ServicerContext
    ) -> inference_pb2.MultiInferenceResponse:
        """Answer several methods over the same examples."""
        spec = request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()
        with self._models.acquire(spec) as version:
            session = measured(version, self.metrics, spec.name, "MultiInference")
            return run_tasks(
                EXAMPLE_METHODS, session, version.number, request, _timeout_in_ms(context)
            )

    def _infer(
        self,
        method: ExampleMethod,
        request: Any,
        response: Any,
        context: grpc.ServicerContext,
    ) -> Any:
        _require_model_spec(request)
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        with self._models.acquire(request.model_spec) as version:
            session = measured(version, self.metrics, request.model_spec.name, method.title)
            result = run_method(method, session, name, request.input, _timeout_in_ms(context))
        response.result.CopyFrom(result)
        response.model_spec.name = request.model_spec.name
        response.model_spec.signature_name = name
        response.model_spec.version.value = version.number
        return response

    @_answered
    def GetModelMetadata(  # noqa: N802
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: grpc.ServicerContext,
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Tell the signatures of a version."""
        _require_model_spec(request)
        return self._models.metadata(request)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus and the reload of the configuration."""

    def __init__(self, models: Models):
        """Answer for these models."""
        self._models = models

    @_answered
    def GetModelStatus(  # noqa: N802
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Tell the states of versions."""
        _require_model_spec(request)
        return self._models.status(request.model_spec)

    @_answered
    def HandleReloadConfigRequest(  # noqa: N802
        self, request: model_management_pb2.ReloadConfigRequest, context: grpc.ServicerContext
    ) -> model_management_pb2.ReloadConfigResponse:
        """Serve other models; answered when they answer."""
        self._models.reload(request.config)
        return model_management_pb2.ReloadConfigResponse()


def _require_model_spec(request: message.Message) -> None:
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")


def _timeout_in_ms(context: grpc.ServicerContext) -> int | None:
    remaining = context.time_remaining()
    if remaining is None:
        return None
    if remaining <= 0:
        # The request waited for a thread until nobody wanted its answer.
        raise ServingError(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
    return max(1, int(remaining * 1000))
