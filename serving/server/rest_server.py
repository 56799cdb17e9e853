"""The web server around the REST API: reads bodies, bounds them, and lets requests end."""

import asyncio
import concurrent.futures
import socket
import threading
from collections.abc import Awaitable, Callable

import uvicorn

from serving.server import patience
from serving.server.reply import Reply
from serving.server.rest_api import RestApi, error_page, unpack

# An idle connection is kept longer than clients keep theirs, so that the client closes first.
_KEEP_ALIVE_SECONDS = 75


class RestServer:
    """Serves the REST API on one port, from a thread of its own."""

    def __init__(
        self,
        api: RestApi,
        listener: socket.socket,
        threads: int,
        max_body_bytes: int,
        drain_seconds: float,
    ):
        """Prepare; `start` begins to answer.

        Args:
            api: Answers the requests.
            listener: A bound socket.
            threads: Requests answered at once.
            max_body_bytes: A longer body is refused.
            drain_seconds: How long `stop` waits for requests under way.
        """
        self._listener = listener
        self._workers = concurrent.futures.ThreadPoolExecutor(threads, "rest")
        application = RestApplication(api, self._workers, max_body_bytes)
        self._server = uvicorn.Server(_configuration(application, drain_seconds))
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="rest", daemon=True
        )

    def start(self) -> None:
        """Listen, and answer from now on."""
        patience.notice_the_gone(self._listener)
        self._listener.listen(1024)
        self._thread.start()

    def stop(self) -> None:
        """Take no new requests, and return when those under way have been answered."""
        self._server.should_exit = True
        self._thread.join()
        self._workers.shutdown(wait=False, cancel_futures=True)


class RestApplication:
    """The ASGI application: one HTTP request at a time to one call of the API."""

    def __init__(self, api: RestApi, workers: concurrent.futures.Executor, max_body_bytes: int):
        """Wrap the API.

        Args:
            api: Answers the requests.
            workers: Where it does so.
            max_body_bytes: A longer body, packed or unpacked, is refused.
        """
        self._api = api
        self._workers = workers
        self._max_body_bytes = max_body_bytes

    async def __call__(
        self,
        scope: dict,
        receive: Callable[[], Awaitable[dict]],
        send: Callable[[dict], Awaitable[None]],
    ) -> None:
        """Answer one connection event, as ASGI defines it."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        try:
            async with asyncio.timeout(patience.PATIENCE_SECONDS):
                body = await self._read(scope, receive)
        except TimeoutError:
            await _send(send, error_page(408), close=True)
            return
        except ConnectionError:
            return
        if body is None:
            await _send(send, error_page(413), close=True)
            return
        loop = asyncio.get_running_loop()
        await _send(send, await loop.run_in_executor(self._workers, self._reply, scope, body))

    def _reply(self, scope: dict, body: bytes) -> Reply:
        target = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode("latin-1")
        if "gzip" in _header(scope, b"content-encoding"):
            body = unpack(body, self._max_body_bytes)
        return self._api.answer(scope["method"], target, body, _header(scope, b"origin"))

    async def _read(self, scope: dict, receive: Callable[[], Awaitable[dict]]) -> bytes | None:
        """The body, or None as soon as it is known to be too long.

        Raises:
            ConnectionError: If the client went away before its end.
        """
        announced = _header(scope, b"content-length")
        if announced and int(announced) > self._max_body_bytes:
            return None
        parts, size, more = [], 0, True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise ConnectionError
            parts.append(event.get("body", b""))
            size += len(parts[-1])
            if size > self._max_body_bytes:
                return None
            more = event.get("more_body", False)
        return b"".join(parts)


async def _send(send: Callable[[dict], Awaitable[None]], reply: Reply, close: bool = False) -> None:
    headers = [(name.encode(), value.encode()) for name, value in reply.headers]
    headers.append((b"content-length", b"%d" % len(reply.body)))
    if reply.content_type:
        headers.append((b"content-type", reply.content_type.encode()))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _header(scope: dict, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _configuration(application: RestApplication, drain_seconds: float) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=patience.PatientProtocol,
        limit_concurrency=patience.MOST_CONNECTIONS,
        ws="none",
        lifespan="off",
        loop="asyncio",
        interface="asgi3",
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(drain_seconds)),
    )
