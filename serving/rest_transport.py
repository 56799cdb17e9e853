"""REST: JSON over HTTP, on kept-alive connections."""

import asyncio
import base64
import json
import struct
import time
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
    AsyncTransport,
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
            target: A URL that begins with `http://` or `https://`.
            model_name: The model of every call.
        """
        self.address = target
        self._path = _path(self.address, model_name)
        self._client = httpx.Client(trust_env=_may_use_proxies(self.address))

    def predict(
        self, signature: str, inputs: Mapping[str, Column], timeout: float
    ) -> dict[str, list]:
        """Run a signature."""
        return _outputs(self._send("POST", ":predict", timeout, _predict_body(signature, inputs)))

    def status(self, timeout: float) -> list[VersionStatus]:
        """Ask for the versions of the model."""
        return _versions(self._send("GET", "", timeout))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, method: str, suffix: str, timeout: float, body: bytes = b"") -> dict:
        deadline = time.monotonic() + timeout
        try:
            with self._client.stream(
                method, self._path + suffix, content=body, timeout=timeout
            ) as response:
                parts = []
                for part in response.iter_bytes():
                    parts.append(part)
                    # The timeout is one of each part: a server may send ever further ones.
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("the answer takes too long")
        except httpx.HTTPError as error:
            raise CallError(*_problem(error, timeout)) from error
        return _parsed(response, b"".join(parts))


class AsyncRestTransport(AsyncTransport):
    """JSON over HTTP, on kept-alive connections, on asyncio."""

    def __init__(self, target: str, model_name: str):
        """Prepare; connections are made by the calls.

        Args:
            target: A URL that begins with `http://` or `https://`.
            model_name: The model of every call.
        """
        self.address = target
        self._path = _path(self.address, model_name)
        self._client = httpx.AsyncClient(trust_env=_may_use_proxies(self.address))

    async def predict(
        self, signature: str, inputs: Mapping[str, Column], timeout: float
    ) -> dict[str, list]:
        """Run a signature."""
        body = _predict_body(signature, inputs)
        return _outputs(await self._send("POST", ":predict", timeout, body))

    async def status(self, timeout: float) -> list[VersionStatus]:
        """Ask for the versions of the model."""
        return _versions(await self._send("GET", "", timeout))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _send(self, method: str, suffix: str, timeout: float, body: bytes = b"") -> dict:
        try:
            async with asyncio.timeout(timeout):
                response = await self._client.request(
                    method, self._path + suffix, content=body, timeout=timeout
                )
        except TimeoutError:
            raise CallError(DEADLINE_EXCEEDED, "the server did not answer in time") from None
        except httpx.HTTPError as error:
            raise CallError(*_problem(error, timeout)) from error
        return _parsed(response, response.content)


def _path(address: str, model_name: str) -> str:
    return f"{address.rstrip('/')}/v1/models/{urllib.parse.quote(model_name, safe='')}"


def _may_use_proxies(address: str) -> bool:
    return not urllib.parse.urlsplit(address).netloc.startswith(LOOPBACK)


def _predict_body(signature: str, inputs: Mapping[str, Column]) -> bytes:
    tensors = {alias: [_as_json(one) for one in column] for alias, column in inputs.items()}
    body = {"signature_name": signature, "inputs": tensors}
    return json.dumps(body, ensure_ascii=False).encode()


def _as_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _outputs(answer: dict) -> dict[str, list]:
    outputs = answer.get("outputs")
    if not isinstance(outputs, dict):
        raise CallError("INTERNAL", "the answer has no named outputs")
    return {alias: _single(value) for alias, value in outputs.items()}


def _versions(answer: dict) -> list[VersionStatus]:
    try:
        return [
            VersionStatus(int(one["version"]), one["state"], one["status"]["error_message"])
            for one in answer["model_version_status"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise CallError(NOT_A_SERVER, f"its answer is not a model status: {error!r}") from None


def _problem(error: httpx.HTTPError, timeout: float) -> tuple[str, str]:
    """Code and message of a request that got no answer."""
    if isinstance(error, httpx.ConnectTimeout):
        return UNAVAILABLE, f"no connection within {timeout:g} s"
    if isinstance(error, httpx.TimeoutException):
        return DEADLINE_EXCEEDED, "the server did not answer in time"
    if isinstance(error, httpx.NetworkError):
        return UNAVAILABLE, str(error)
    # A server that ends between two requests closes the connection without an answer.
    return (UNAVAILABLE if "disconnected" in str(error) else NOT_A_SERVER), str(error)


def _parsed(response: httpx.Response, content: bytes) -> dict:
    try:
        answer = json.loads(content.decode("utf-8", "replace"))
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
