"""What the embedded server adds to a model that does nearly nothing.

Measures requests a second and the middle latency of Predict over gRPC and over REST, with 1 and
16 callers in a process of their own, against bare runs of the same model in this process:

    python benchmarks/serving_overhead.py --seconds 5
"""

import argparse
import collections
import concurrent.futures
import functools
import http.client
import json
import multiprocessing
import os
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from rich.console import Console
from rich.table import Table

CALLERS = (1, 16)
TEXT = b"a sentence of some length, as a sentence has"

Result = collections.namedtuple("Result", "requests_per_second p50_ms")


def save_model(folder: pathlib.Path) -> None:
    """Write a SavedModel string[B] -> string[B], float32[B] that costs microseconds."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def translate(text: tf.Tensor) -> dict[str, tf.Tensor]:
        score = tf.cast(-tf.strings.length(text), tf.float32)
        return {"translation": tf.strings.upper(text), "score": score}

    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": translate})


def grpc_caller(address: str) -> Callable[[], None]:
    """One Predict over a connection of its own."""
    import grpc

    from serving import wire

    # Otherwise all callers of a process share one connection.
    channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
    predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    request = wire.PredictRequest()
    request.model_spec.name = "translation"
    wire.write_column([TEXT], request.inputs["text"])
    packed = request.SerializeToString()
    return lambda: predict(packed, timeout=60)


def rest_caller(address: str) -> Callable[[], None]:
    """One predict over a kept-alive connection."""
    connection = http.client.HTTPConnection(address)
    body = json.dumps({"instances": [TEXT.decode()]})

    def call() -> None:
        connection.request("POST", "/v1/models/translation:predict", body)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"HTTP {response.status}")

    return call


def bare_caller(folder: str) -> Callable[[], None]:
    """One run of the loaded model, without a server."""
    import numpy as np

    from serving.server.saved_model import SavedModelSession

    session = _session(folder, SavedModelSession)
    signature = session.signatures["serving_default"]
    feeds = {signature.inputs["text"].name: np.array([TEXT], dtype=object)}
    fetches = [info.name for info in signature.outputs.values()]
    return lambda: session.run(feeds, fetches, 60_000)


@functools.cache
def _session(folder: str, load: Callable) -> object:
    return load(pathlib.Path(folder))


KINDS = {"gRPC": grpc_caller, "REST": rest_caller, "bare run": bare_caller}


def measure(kind: str, place: str, callers: int, seconds: float) -> Result:
    """Call without pause from several threads.

    Args:
        kind: A key of `KINDS`.
        place: Address of the server, or folder of the model.
        callers: Threads.
        seconds: How long, after as long again divided by five to warm up.
    """
    calls = [KINDS[kind](place) for _ in range(callers)]
    start = threading.Barrier(callers)

    def work(call: Callable[[], None]) -> tuple[list[float], float]:
        start.wait()
        _call_for(call, seconds / 5)
        began = time.perf_counter()
        durations = _call_for(call, seconds)
        return durations, time.perf_counter() - began

    with concurrent.futures.ThreadPoolExecutor(callers) as pool:
        results = list(pool.map(work, calls))
    rate = sum(len(durations) / elapsed for durations, elapsed in results)
    middle = statistics.median([one for durations, _ in results for one in durations])
    return Result(rate, middle * 1000)


def _call_for(call: Callable[[], None], seconds: float) -> list[float]:
    durations = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        call()
        durations.append(time.perf_counter() - began)
    return durations


def measure_elsewhere(*arguments: object) -> Result:
    """Measure from another process, so that callers and server do not share one interpreter."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def run(seconds: float) -> dict[tuple[str, int], Result]:
    """Measure everything."""
    from serving.server.main import Server
    from serving.server.options import ServerOptions

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        base_path = pathlib.Path(folder, "translation")
        save_model(base_path / "1")
        for callers in CALLERS:
            place = str(base_path / "1")
            results["bare run", callers] = measure("bare run", place, callers, seconds)
        with Server(ServerOptions("translation", base_path, port=0, rest_api_port=0)) as server:
            places = {"gRPC": server.addresses.grpc, "REST": server.addresses.rest}
            for kind, place in places.items():
                for callers in CALLERS:
                    results[kind, callers] = measure_elsewhere(kind, place, callers, seconds)
    return results


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    results = run(parser.parse_args().seconds)
    table = Table(title=f"Overhead of the embedded server ({os.cpu_count()} cores)")
    for column in ("", "callers", "requests/s", "p50 ms"):
        table.add_column(column, justify="left" if not column else "right")
    for (kind, callers), result in results.items():
        table.add_row(
            kind, str(callers), f"{result.requests_per_second:,.0f}", f"{result.p50_ms:.2f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
