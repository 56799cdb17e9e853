"""The services of the gRPC API: predictions, and what is told and changed of models."""

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import message
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from serving.server.example_methods import CLASSIFY, EXAMPLE_METHODS, REGRESS
from serving.server.inference import ExampleMethod, run_method, run_tasks
from serving.server.measured import measured
from serving.server.metrics import Metrics
from serving.server.models import Models
from serving.server.predict import DEFAULT_SIGNATURE, predict
from serving.server.status import ServingError, invalid_argument
from serving.server.tensors import to_array, to_content, to_proto

_log = logging.getLogger("seqloom.serving")


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
            response = run_tasks(
                EXAMPLE_METHODS, session, version.number, request, _timeout_in_ms(context)
            )
        kind = request.input.WhichOneof("kind")
        assert kind  # Otherwise it had no examples.
        self.metrics.record_examples(spec.name, len(getattr(request.input, kind).examples))
        return response

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

    def __init__(self, models: Models, metrics: Metrics):
        """Answer for these models, and tell what was counted meanwhile."""
        self._models = models
        self._metrics = metrics

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
        """Serve other models; answered when they answer, with what was counted meanwhile."""
        before = {name: self._metrics.value(name) for name in request.metric_names}
        self._models.reload(request.config)
        response = model_management_pb2.ReloadConfigResponse()
        response.status.SetInParent()
        for name, value in before.items():
            response.metric.add(name=name, int64_value_increase=self._metrics.value(name) - value)
        return response


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
