"""How fast an exported model translates: sentences a second, and one request at a time.

    python benchmarks/translation.py runs/demo/export/translation runs/demo/scores/test.source.txt

Batches of 32 lines of like length through the signature `serving_default` with its own search,
as `seqloom translate` sends them; then single sentences over gRPC and REST to the embedded
server in this process.
"""

import os
import pathlib
import statistics
import time
from typing import Annotated

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import rich.console
import rich.table
import typer

from pipeline.translate import LocalModel
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions


def main(
    base_path: Annotated[pathlib.Path, typer.Argument(help="Folder of the model's versions.")],
    text: Annotated[pathlib.Path, typer.Argument(help="Sentences, one a line.")],
    rounds: Annotated[int, typer.Option(help="Times the file is translated.")] = 3,
    requests: Annotated[int, typer.Option(help="Single requests of each API.")] = 100,
) -> None:
    """Measure."""
    lines = [line for line in text.read_text(encoding="utf-8").split("\n") if line]
    console = rich.console.Console()
    model = LocalModel(base_path)
    rates = [_sentences_per_second(model, lines) for _ in range(rounds + 1)][1:]
    model.close()
    console.print(
        f"batch 32: {statistics.median(rates):,.1f} sentences/s, median of {rounds} "
        f"({min(rates):,.1f} to {max(rates):,.1f})"
    )
    table = rich.table.Table(title=f"One sentence a request, {requests} requests")
    for name in ("api", "p50 ms", "p95 ms"):
        table.add_column(name)
    options = ServerOptions("translation", base_path, port=0, rest_api_port=0, announce=str)
    with Server(options) as server:
        for api in ("grpc", "rest"):
            times = _request_times(getattr(server.addresses, api), api, lines, requests)
            table.add_row(api, *(f"{1000 * _quantile(times, q):.1f}" for q in (0.5, 0.95)))
    console.print(table)


def _sentences_per_second(model: LocalModel, lines: list[str]) -> float:
    ordered = sorted(lines, key=len)
    since = time.perf_counter()
    for first in range(0, len(ordered), 32):
        model.translate(ordered[first : first + 32])
    return len(lines) / (time.perf_counter() - since)


def _request_times(address: str, api: str, lines: list[str], requests: int) -> list[float]:
    times = []
    with Client(address, api) as client:
        client.translate(lines[:1])
        for number in range(requests):
            since = time.perf_counter()
            client.translate([lines[number % len(lines)]])
            times.append(time.perf_counter() - since)
    return times


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


if __name__ == "__main__":
    typer.run(main)
