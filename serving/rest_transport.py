"""REST: JSON over HTTP, on kept-alive connections."""

import base64
import json
import struct
import urllib.parse
from collections.abc import Mapping
from typing import Any

import httpx

from serving.answers import VersionStatus
from serving.transport import (
    DEADLINE_EXCEEDED,
    INVALID_ARGUMENT,
    LOOPBACK,
    NO_SUCH_SIGNATURE,
    NOT_A_SERVER,
    NOT_FOUND,
    UNAVAILABLE,
    CallError,
    Column,
    Transport,
)

_HTTP_CODES = {
    400: INVALID_ARGUMENT,
    404: NOT_FOUND,
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: UNAVAILABLE,
    504: DEADLINE_EXCEEDED,
}
# The only statuses that a proxy in between sends without a body of the server's.
_FROM_PROXIES = (413, 429, 503, 504)
_FLOAT32 = struct.Struct("f")
_MISSING_SIGNATURE = "Serving signature name"


class RestTransport(Transport):
    """JSON over HTTP, on kept-alive connections."""

    def __init__(self, target: str, model_name: str):
        """Prepare; connections are made by the calls.

        Args:
            target: `host:port`, or a URL that begins with `http://` or `https://`.
            model_name: The model of every call.
        """
        self.address = target if "://" in target else f"http://{target}"
        host = urllib.parse.urlsplit(self.address).netloc
        path = f"{self.address.rstrip('/')}/v1/models/{urllib.parse.quote(model_name, safe='')}"
        self._path = path
        self._client = httpx.Client(trust_env=not host.startswith(LOOPBACK))

    def predict(
        self, signature: str, inputs: Mapping[str, Column], timeout: float
    ) -> dict[str, list]:
        """Run a signature."""
        tensors = {alias: [_as_json(one) for one in column] for alias, column in inputs.items()}
        body = {"signature_name": signature, "inputs": tensors}
        answer = self._send("POST", ":predict", timeout, json.dumps(body, ensure_ascii=False))
        outputs = answer.get("outputs")
        if not isinstance(outputs, dict):
            raise CallError("INTERNAL", "the answer has no named outputs")
        return {alias: _single(value) for alias, value in outputs.items()}

    def status(self, timeout: float) -> list[VersionStatus]:
        """Ask for the versions of the model."""
        answer = self._send("GET", "", timeout)
        try:
            return [
                VersionStatus(int(one["version"]), one["state"], one["status"]["error_message"])
                for one in answer["model_version_status"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise CallError(NOT_A_SERVER, f"its answer is not a model status: {error!r}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, method: str, suffix: str, timeout: float, body: str = "") -> dict:
        try:
            response = self._client.request(
                method, self._path + suffix, content=body.encode(), timeout=timeout
            )
        except httpx.ConnectTimeout as error:
            raise CallError(UNAVAILABLE, f"no connection within {timeout:g} s") from error
        except httpx.TimeoutException as error:
            raise CallError(DEADLINE_EXCEEDED, "the server did not answer in time") from error
        except (httpx.ConnectError, httpx.ReadError, httpx.WriteError) as error:
            raise CallError(UNAVAILABLE, str(error)) from None
        except httpx.RemoteProtocolError as error:
            raise CallError(*_protocol_problem(str(error))) from None
        return _parsed(response)


def _as_json(value: bytes | int | float) -> str | int | float | dict[str, str]:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _protocol_problem(message: str) -> tuple[str, str]:
    # A server that ends between two requests closes the connection without an answer.
    return (UNAVAILABLE if "disconnected" in message else NOT_A_SERVER), message


def _parsed(response: httpx.Response) -> dict:
    try:
        answer = json.loads(response.content.decode("utf-8", "replace"))
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        status = response.status_code
        code = _HTTP_CODES[status] if status in _FROM_PROXIES else NOT_A_SERVER
        raise CallError(code, f"HTTP {status} {response.reason_phrase}")
    if response.status_code == 200:
        return answer
    message = str(answer.get("error", answer))
    if message.startswith(_MISSING_SIGNATURE):
        raise CallError(NO_SUCH_SIGNATURE, message)
    raise CallError(_HTTP_CODES.get(response.status_code, "UNKNOWN"), message)


def _single(value: Any) -> Any:
    """Numbers as float32 has them: the decimals sent are only enough to tell those apart."""
    if isinstance(value, list):
        return [_single(item) for item in value]
    return _FLOAT32.unpack(_FLOAT32.pack(value))[0] if isinstance(value, float) else value
