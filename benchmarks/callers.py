"""Callers of a served model, so many requests under way at once, in a process of their own."""

import asyncio
import collections
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

MODEL = "translation"
REQUEST_SECONDS = 60
MOST_CALLERS = 1000
Call = Callable[[str], Awaitable[None]]


class Outcome(NamedTuple):
    """What callers saw.

    Attributes:
        seconds: How long they asked.
        durations: Seconds that each answered request took.
        errors: How often each error came.
    """

    seconds: float
    durations: list[float]
    errors: collections.Counter

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.durations) / self.seconds

    def milliseconds(self, share: float) -> float:
        """The time within which that share of answers came."""
        if not self.durations:
            return float("nan")
        ordered = sorted(self.durations)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Asked(NamedTuple):
    """What callers are to do.

    Attributes:
        protocol: A key of `PROTOCOLS`.
        address: `host:port`.
        callers: Requests under way at any time; each follows upon the answer to the one before.
        seconds: For how long.
        texts: Sentences, sent in turn.
        stop_file: They end before, too, when this file is there.
    """

    protocol: str
    address: str
    callers: int
    seconds: float
    texts: list[str]
    stop_file: str = ""


class Elsewhere:
    """A process that asks, so that callers and this program do not share an interpreter."""

    def __enter__(self) -> "Elsewhere":
        """Start it."""
        spawn = multiprocessing.get_context("spawn")
        self._pool = concurrent.futures.ProcessPoolExecutor(1, spawn)
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for its end."""
        self._pool.shutdown()

    def ask(self, asked: Asked) -> "concurrent.futures.Future[Outcome]":
        """Begin to ask."""
        return self._pool.submit(_ask_here, asked)


@contextlib.asynccontextmanager
async def grpc_call(address: str) -> AsyncIterator[Call]:
    """Gives a call of Predict on one sentence; all go over one connection."""
    import grpc

    from serving import wire

    channel = grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
    predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")

    async def call(text: str) -> None:
        request = wire.PredictRequest()
        request.model_spec.name = MODEL
        wire.write_column([text.encode()], request.inputs["text"])
        packed = await predict(request.SerializeToString(), timeout=REQUEST_SECONDS)
        answer = wire.PredictResponse.FromString(packed)
        if len(answer.outputs["translation"].string_val) != 1:
            raise RuntimeError("the answer is not one translation")

    async with channel:
        yield call


@contextlib.asynccontextmanager
async def rest_call(address: str) -> AsyncIterator[Call]:
    """Gives a call of predict on one sentence, over kept-alive connections.

    Each is a thread's, of Python's own HTTP: it takes a fraction of the processor time of clients
    that do more, and so leaves the server its processors.
    """
    threads, loop = threading.local(), asyncio.get_running_loop()
    path = f"/v1/models/{MODEL}:predict"

    def ask(text: str) -> None:
        if not hasattr(threads, "connection"):
            threads.connection = http.client.HTTPConnection(address, timeout=REQUEST_SECONDS)
        connection = threads.connection
        try:
            connection.request("POST", path, json.dumps({"inputs": [text]}))
            response = connection.getresponse()
            body = response.read()
        except Exception:
            connection.close()  # The next request opens it again.
            raise
        if response.status != 200:
            raise RuntimeError(f"HTTP {response.status}: {body[:80].decode(errors='replace')}")
        if len(json.loads(body)["outputs"]["translation"]) != 1:
            raise RuntimeError("the answer is not one translation")

    with concurrent.futures.ThreadPoolExecutor(MOST_CALLERS) as pool:

        async def call(text: str) -> None:
            await loop.run_in_executor(pool, ask, text)

        yield call


PROTOCOLS = {"gRPC": grpc_call, "REST": rest_call}


def _ask_here(asked: Asked) -> Outcome:
    return asyncio.run(_ask(asked))


async def _ask(asked: Asked) -> Outcome:
    durations: list[float] = []
    errors: collections.Counter = collections.Counter()
    turn = itertools.cycle(asked.texts)

    async def caller(call: Call, began: float) -> None:
        while time.perf_counter() < began + asked.seconds:
            if asked.stop_file and os.path.exists(asked.stop_file):
                return
            sent = time.perf_counter()
            try:
                await call(next(turn))
            except Exception as error:
                errors[_named(error)] += 1
            else:
                durations.append(time.perf_counter() - sent)

    async with PROTOCOLS[asked.protocol](asked.address) as call:
        began = time.perf_counter()
        await asyncio.gather(*[caller(call, began) for _ in range(asked.callers)])
    return Outcome(time.perf_counter() - began, durations, errors)


def _named(error: Exception) -> str:
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    if callable(code) and callable(details):
        return f"{code().name}: {details()}"[:120]
    return f"{type(error).__name__}: {error}"[:120]
