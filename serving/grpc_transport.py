"""gRPC: the messages of `wire.py` over one channel, which carries many calls at once."""

from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf import message

from serving import wire
from serving.answers import VersionStatus
from serving.transport import (
    LOOPBACK,
    NO_SUCH_SIGNATURE,
    NOT_A_SERVER,
    UNAVAILABLE,
    AsyncTransport,
    CallError,
    Column,
    Transport,
)

_PREDICT = "/tensorflow.serving.PredictionService/Predict"
_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"


class GrpcTransport(Transport):
    """gRPC over one channel."""

    def __init__(self, target: str, model_name: str):
        """Prepare; the connection is made by the first call.

        Args:
            target: `host:port`.
            model_name: The model of every call.
        """
        self.address = target
        self._model_name = model_name
        self._channel = grpc.insecure_channel(target, options=_channel_options(target))
        self._predict = _method(self._channel, _PREDICT, wire.PredictResponse)
        self._status = _method(self._channel, _STATUS, wire.GetModelStatusResponse)

    def predict(
        self, signature: str, inputs: Mapping[str, Column], timeout: float
    ) -> dict[str, list]:
        """Run a signature."""
        request = _predict_request(self._model_name, signature, inputs)
        return _outputs(_call(self._predict, request, timeout))

    def status(self, timeout: float) -> list[VersionStatus]:
        """Ask for the versions of the model."""
        return _versions(_call(self._status, _status_request(self._model_name), timeout))

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


class AsyncGrpcTransport(AsyncTransport):
    """gRPC over one channel, on asyncio."""

    def __init__(self, target: str, model_name: str):
        """Prepare, on the event loop that will be used; the first call connects.

        Args:
            target: `host:port`.
            model_name: The model of every call.
        """
        self.address = target
        self._model_name = model_name
        self._channel = grpc.aio.insecure_channel(target, options=_channel_options(target))
        self._predict = _method(self._channel, _PREDICT, wire.PredictResponse)
        self._status = _method(self._channel, _STATUS, wire.GetModelStatusResponse)

    async def predict(
        self, signature: str, inputs: Mapping[str, Column], timeout: float
    ) -> dict[str, list]:
        """Run a signature."""
        request = _predict_request(self._model_name, signature, inputs)
        return _outputs(await _async_call(self._predict, request, timeout))

    async def status(self, timeout: float) -> list[VersionStatus]:
        """Ask for the versions of the model."""
        request = _status_request(self._model_name)
        return _versions(await _async_call(self._status, request, timeout))

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


def _method(channel: Any, name: str, response: type[message.Message]) -> Any:
    return channel.unary_unary(
        name,
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=response.FromString,
    )


def _channel_options(target: str) -> list[tuple[str, int]]:
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        # A refused connection is tried again at the client's pace, not after a second.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
    ]
    if target.startswith(LOOPBACK):
        options.append(("grpc.enable_http_proxy", 0))
    return options


def _predict_request(
    model_name: str, signature: str, inputs: Mapping[str, Column]
) -> message.Message:
    request = wire.PredictRequest()
    request.model_spec.name = model_name
    request.model_spec.signature_name = signature
    for alias, values in inputs.items():
        wire.write_column(values, request.inputs[alias])
    return request


def _status_request(model_name: str) -> message.Message:
    request = wire.GetModelStatusRequest()
    request.model_spec.name = model_name
    return request


def _outputs(response: Any) -> dict[str, list]:
    try:
        return {alias: wire.read_tensor(one) for alias, one in response.outputs.items()}
    except ValueError as error:
        raise CallError("INTERNAL", str(error)) from None


def _versions(response: Any) -> list[VersionStatus]:
    return [
        VersionStatus(
            one.version, wire.STATES.get(one.state, str(one.state)), one.status.error_message
        )
        for one in response.model_version_status
    ]


def _call(method: grpc.UnaryUnaryMultiCallable, request: message.Message, timeout: float) -> Any:
    try:
        return method(request, timeout=timeout)
    except grpc.RpcError as error:
        raise CallError(*_grpc_problem(error.code().name, error.details() or "")) from None


async def _async_call(method: Any, request: message.Message, timeout: float) -> Any:
    try:
        return await method(request, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        raise CallError(*_grpc_problem(error.code().name, error.details() or "")) from None


def _grpc_problem(code: str, details: str) -> tuple[str, str]:
    if code == UNAVAILABLE and ("http1" in details.lower() or "HTTP/2" in details):
        return NOT_A_SERVER, details
    if code == "UNIMPLEMENTED":
        return NOT_A_SERVER, details
    if code == "FAILED_PRECONDITION" and "signature" in details:
        return NO_SUCH_SIGNATURE, details
    return code, details
