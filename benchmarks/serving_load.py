"""How many requests a second a served translation model answers, and how long each waits.

Starts `seqloom serve` on an export, unbatched and batched as `seqloom deploy` batches, and asks it
one sentence a request, by several callers at once. What an answer costs the server's processors
is told too: on a machine that does other work it says more than requests a second.

    python benchmarks/serving_load.py runs/demo/export/translation \
        --texts runs/demo/scores/test.source.txt

`--soak MINUTES` asks for so long and tells what memory the server gained after it was warm;
`--reload N` publishes N versions one after another meanwhile, and counts what failed. `--grpc` and
`--rest` ask a server that runs already, such as TensorFlow Serving, in place of ours.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

from callers import MODEL, Asked, Elsewhere, Outcome
from rich.console import Console
from rich.table import Table

from models.errors import UserError
from serving.client import Client, ServerFailure

CALLERS = (1, 8, 32, 128)
START_SECONDS = 300
# Of each protocol, where both are asked at once.
FEW_CALLERS = 4
MOST_GROWTH = 0.05
Futures = list["concurrent.futures.Future[Outcome]"]


class Running(NamedTuple):
    """A server.

    Attributes:
        grpc: `host:port`, or "".
        rest: `host:port`, or "".
        process: Its number, or 0 if it is not ours.
    """

    grpc: str
    rest: str
    process: int = 0


class Rate(NamedTuple):
    """How many answers came.

    Attributes:
        answers: A second.
        answers_by_cpu: For a second of the server's processors.
    """

    answers: float
    answers_by_cpu: float


Rates = dict[tuple[str, int], Rate]  # by protocol and callers


@contextlib.contextmanager
def serving(base: pathlib.Path, *flags: str) -> Iterator[Running]:
    """Serve a folder of versions for as long as the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        addresses = pathlib.Path(folder, "addresses.json")
        command = [sys.executable, "-m", "pipeline.cli", "serve", "--engine=embedded"]
        command += ["--port=0", "--rest-api-port=0", f"--address-file={addresses}"]
        command += [f"--model_name={MODEL}", f"--model_base_path={base}", *flags]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not addresses.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the server did not start: {' '.join(command)}")
                time.sleep(0.1)
            listening = json.loads(addresses.read_text())
            yield Running(listening["grpc"], listening["rest"], process.pid)
        finally:
            process.terminate()
            process.wait()


def batching_flags(options: argparse.Namespace, folder: str) -> list[str]:
    """The flags that turn batching on, by the file given or the one that `deploy` would write."""
    from serving.deploy.contract import Deployment, Measured
    from serving.deploy.server_files import server_files

    unmeasured = Measured(0, 0, 0.0)
    deployment = Deployment(MODEL, options.base, 1, unmeasured, cpus=os.cpu_count() or 1)
    parameters = options.parameters
    if not parameters:
        parameters = pathlib.Path(folder, "batching.config")
        parameters.write_text(server_files(deployment)["batching.config"])
    return [
        "--enable_batching=true",
        f"--batching_parameters_file={parameters.absolute()}",
        *[flag for flag in deployment.arguments if flag.startswith("--rest_api_num_threads")],
    ]


def measure(options: argparse.Namespace) -> None:
    """Print the table of requests a second, unbatched and batched."""
    table = Table(title=f"One sentence a request ({os.cpu_count()} cores)")
    for column in ("server", "by", "callers", "req/s", "p50 ms", "p95 ms", "p99 ms"):
        table.add_column(column, justify="left" if column in ("server", "by") else "right")
    for column in ("CPU ms", "failed"):
        table.add_column(column, justify="right")
    measured: dict[str, Rates] = {}
    if options.grpc or options.rest:
        _measure_one(Running(options.grpc, options.rest), "given", options, table)
    else:
        with tempfile.TemporaryDirectory() as folder:
            flags = {"unbatched": [], "batched": batching_flags(options, folder)}
            for name, given in flags.items():
                with serving(options.base, *given) as running:
                    measured[name] = _measure_one(running, name, options, table)
    Console(width=100).print(table)
    for asked, batched in measured.get("batched", {}).items():
        unbatched = measured["unbatched"][asked]
        print(
            f"batched/unbatched, {asked[0]}, {asked[1]} callers: "
            f"{batched.answers / unbatched.answers:.2f} times the requests/s, and "
            f"{batched.answers_by_cpu / unbatched.answers_by_cpu:.2f} times as many by CPU"
        )


def _measure_one(running: Running, name: str, options: argparse.Namespace, table: Table) -> Rates:
    rates = {}
    for protocol, address in (("gRPC", running.grpc), ("REST", running.rest)):
        for callers in options.callers if address else ():
            asked = Asked(protocol, address, callers, options.seconds, options.lines)
            with Elsewhere() as elsewhere:
                # The first runs find shapes unseen and no connection.
                elsewhere.ask(asked._replace(seconds=options.seconds / 4)).result()
                before = cpu_seconds(running.process)
                outcome = elsewhere.ask(asked).result()
            cost = (cpu_seconds(running.process) - before) / max(1, len(outcome.durations))
            rates[protocol, callers] = Rate(outcome.rate, 1 / cost if cost else math.nan)
            shares = [f"{outcome.milliseconds(share):,.1f}" for share in (0.5, 0.95, 0.99)]
            spent = f"{1000 * cost:,.1f}" if cost else ""
            failed = str(sum(outcome.errors.values()))
            row = (name, protocol, str(callers), f"{outcome.rate:,.1f}", *shares, spent, failed)
            table.add_row(*row)
            for error, times in outcome.errors.most_common(3):
                print(f"{name}, {protocol}, {callers} callers: {times} times {error}")
    return rates


@contextlib.contextmanager
def both_asked(
    running: Running, seconds: float, lines: list[str], stop_file: str = ""
) -> Iterator[Futures]:
    """Ask by gRPC and by REST while the block runs, and to the end."""
    asked = Asked("gRPC", running.grpc, FEW_CALLERS, seconds, lines, stop_file)
    with Elsewhere() as one, Elsewhere() as other:
        rest = asked._replace(protocol="REST", address=running.rest)
        yield [one.ask(asked), other.ask(rest)]


def soak(options: argparse.Namespace) -> bool:
    """Ask for minutes, and tell the growth of memory after a warm-up.

    Returns:
        Whether it stayed below `MOST_GROWTH` and nothing failed.
    """
    seconds, samples = options.soak * 60, []
    with tempfile.TemporaryDirectory() as folder:
        with serving(options.base, *batching_flags(options, folder)) as running:
            began = time.monotonic()
            with both_asked(running, seconds, options.lines) as under_way:
                while not all(future.done() for future in under_way):
                    samples.append((time.monotonic() - began, resident_mib(running.process)))
                    time.sleep(min(1.0, seconds / 60))
    # The first fifth is the warm-up.
    warm = [size for moment, size in samples if 0.2 <= moment / seconds < 0.4]
    late = [size for moment, size in samples if moment / seconds >= 0.8]
    before, after = sum(warm) / len(warm), sum(late) / len(late)
    growth = after / before - 1
    print(
        f"{options.soak:g} minutes: memory {before:,.0f} MiB in their second fifth, {after:,.0f} "
        f"MiB in their last, {growth:+.1%}"
    )
    return _told(under_way) and growth <= MOST_GROWTH


def resident_mib(process: int) -> float:
    """Memory that a process has in use."""
    for line in pathlib.Path("/proc", str(process), "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("/proc tells no VmRSS of the server")


def cpu_seconds(process: int) -> float:
    """Time that a process has had of the processors; 0 of one that is not ours."""
    if not process:
        return 0.0
    # The name may hold spaces; the fields after it are numbered from 3 in proc(5).
    fields = pathlib.Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def reload(options: argparse.Namespace) -> bool:
    """Publish versions one after another while callers ask.

    Returns:
        Whether nothing failed.
    """
    numbered = [path for path in options.base.iterdir() if path.name.isdigit()]
    source = max(numbered, key=lambda path: int(path.name))
    with tempfile.TemporaryDirectory(dir=options.base.parent) as folder:
        base, stop_file = pathlib.Path(folder, MODEL), pathlib.Path(folder, "stop")
        publish(source, base, 1)
        flags = [*batching_flags(options, folder), "--file_system_poll_wait_seconds=0.2"]
        began = time.monotonic()
        with serving(base, *flags) as running, Client(running.grpc, model_name=MODEL) as client:
            with both_asked(running, float("inf"), options.lines, str(stop_file)) as under_way:
                for version in range(2, options.reload + 2):
                    publish(source, base, version)
                    wait_for(client, version)
                    shutil.rmtree(base / str(version - 1))
                stop_file.touch()
    seconds = time.monotonic() - began
    print(f"{options.reload} versions reloaded within {seconds:,.0f} s")
    return _told(under_way)


def publish(source: pathlib.Path, base: pathlib.Path, version: int) -> None:
    """Let a version appear whole, its files shared with the one it is made of."""
    beside = base / f"coming-{version}"
    shutil.copytree(source, beside, copy_function=os.link)
    beside.rename(base / str(version))


def wait_for(client: Client, version: int) -> None:
    """Wait until a version answers, and no other."""
    answering: list[int] = []
    deadline = time.monotonic() + START_SECONDS
    while answering != [version]:
        if time.monotonic() > deadline:
            raise SystemExit(f"version {version} does not answer alone; {answering} do")
        time.sleep(0.05)
        with contextlib.suppress(UserError, ServerFailure):
            answering = [one.version for one in client.status() if one.state == "AVAILABLE"]


def _told(under_way: Futures) -> bool:
    """Print how requests ended; whether none failed."""
    outcomes = [future.result() for future in under_way]
    errors: collections.Counter = collections.Counter()
    for outcome in outcomes:
        errors += outcome.errors
    answers = sum(len(outcome.durations) for outcome in outcomes)
    print(f"{answers:,} answers, {sum(errors.values())} failed")
    for error, times in errors.most_common(5):
        print(f"  {times} times {error}")
    return not errors


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", type=pathlib.Path, help="folder of the model's versions")
    parser.add_argument("--texts", type=pathlib.Path, required=True, help="sentences, one a line")
    parser.add_argument("--callers", type=int, nargs="+", default=CALLERS)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement")
    parser.add_argument("--parameters", type=pathlib.Path, help="a batching parameters file")
    parser.add_argument("--grpc", default="", metavar="HOST:PORT", help="a server that runs")
    parser.add_argument("--rest", default="", metavar="HOST:PORT", help="a server that runs")
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--reload", type=int, metavar="N", help="versions")
    options = parser.parse_args()
    options.base = options.base.resolve()
    lines = options.texts.read_text(encoding="utf-8").splitlines()
    options.lines = [line for line in lines if line.strip()]
    wanted = {"soak": soak, "reload": reload}
    passed = [check(options) for name, check in wanted.items() if getattr(options, name)]
    if not passed:
        measure(options)
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
