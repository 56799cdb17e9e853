"""The playground's pages, and the way from them to the model server."""

import json
import pathlib
import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import httpx

_PAGE = pathlib.Path(__file__).with_name("page")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_JSON = "application/json"
# What the page asks of a model server, and so all that is passed on.
_ASKED = re.compile(rb"/v1/models/[^/:?]+(?:/metadata|:predict)?")
_PASSED_ON = {"GET", "POST"}
_LONGEST_BODY = 32 << 20
_SECONDS = 60.0
_HEADERS = {
    # Nothing from elsewhere; pictures that the user chose are blobs.
    "content-security-policy": "default-src 'self'; img-src 'self' blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}

Receive = Callable[[], Awaitable[dict]]
Send = Callable[[dict], Awaitable[None]]


class _Reply(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = _JSON


class PlaygroundApplication:
    """The ASGI application.

    The files of the page are read once, so that no path of a request reaches the file system.

    Args:
        server: Address of the model server's REST API, `http://host:port`.
        model_name: The model that the page asks for first.
    """

    def __init__(self, server: str, model_name: str):
        self._server = server.rstrip("/")
        self._files = {
            f"/{path.name}": _Reply(200, path.read_bytes(), _TYPES[path.suffix])
            for path in _PAGE.iterdir()
            if path.suffix in _TYPES
        }
        self._files["/"] = self._files["/index.html"]
        settings = {"model": model_name, "server": self._server}
        self._files["/settings.json"] = _Reply(200, json.dumps(settings).encode())
        self._client: httpx.AsyncClient | None = None

    async def __call__(self, scope: dict, receive: Receive, send: Send) -> None:
        """Answer one connection event, as ASGI defines it."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            reply = await self._answer(scope, receive)
            headers = {**_HEADERS, "content-type": reply.content_type}
            await send(
                {
                    "type": "http.response.start",
                    "status": reply.status,
                    "headers": [(name.encode(), text.encode()) for name, text in headers.items()]
                    + [(b"content-length", b"%d" % len(reply.body))],
                }
            )
            await send({"type": "http.response.body", "body": reply.body})
        else:
            raise RuntimeError(f"{scope['type']} is not served here")

    async def _live(self, receive: Receive, send: Send) -> None:
        # Proxies of the environment lead away from this machine, where most servers are.
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as self._client:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: dict, receive: Receive) -> _Reply:
        path: bytes = scope["raw_path"]
        if _ASKED.fullmatch(path) and scope["method"] in _PASSED_ON:
            body = await _body(receive)
            if body is None:
                return _error(413, f"The playground takes {_LONGEST_BODY >> 20} MiB at most")
            return await self._pass_on(scope["method"], path, body)
        file = self._files.get(path.decode("latin-1"))
        if file is None or scope["method"] != "GET":
            return _error(404, "The playground has no such page")
        return file

    async def _pass_on(self, method: str, path: bytes, body: bytes) -> _Reply:
        assert self._client  # Made before the first request comes.
        try:
            answer = await self._client.request(
                method, self._server + path.decode("latin-1"), content=body
            )
        except httpx.TimeoutException:
            return _error(504, f"{self._server} does not answer within {_SECONDS:g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _error(
                503, f"No model server answers at {self._server} ({error}). Is it still running?"
            )
        return _Reply(answer.status_code, answer.content, _JSON)


async def _body(receive: Receive) -> bytes | None:
    """The body, or None as soon as it is too long."""
    parts, size, more = [], 0, True
    while more:
        event = await receive()
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > _LONGEST_BODY:
            return None
        more = event.get("more_body", False)
    return b"".join(parts)


def _error(status: int, message: str) -> _Reply:
    return _Reply(status, json.dumps({"error": message}).encode())
