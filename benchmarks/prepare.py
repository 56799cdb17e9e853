"""How fast `prepare` is: pairs a second on 300,000 Tatoeba pairs, and its peak memory.

    python benchmarks/prepare.py [--pairs 300000] [--runs 5] [--workers 0]

The corpus is tatoeba-fra-eng of SEQLOOM_DATA: 167,130 different pairs; those beyond are the
same ones again, each side with a number behind it, so that no pair is dropped as duplicate.
A run is a process of its own with the default settings: two SentencePiece vocabularies of
8,000 pieces, each trained on a sample of 200,000 distinct sentences, tokenisation, one shuffle,
eight shards. The parts and the total are of the same runs; the memory is of one more run,
because measuring it takes time: the proportional set size of the command and its workers,
summed, twice a second.
"""

import argparse
import io
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

import rich.console
import rich.table

from pipeline.experiment import Experiment
from pipeline.prepare.run import prepare_timed
from pipeline.workspace import Workspace

ROOT = pathlib.Path(__file__).resolve().parents[1]

PARTS = {
    "read": "look at the files",
    "sample": "start workers, read sample",
    "train": "train vocabularies",
    "write": "tokenise, shuffle, write",
}


def corpus_lines(folder: pathlib.Path, pairs: int) -> list[str]:
    """The first `pairs` lines of the corpus, repeated with a number behind either side."""
    with zipfile.ZipFile(folder / "tatoeba-fra-eng" / "fra-eng.zip") as archive:
        (name,) = [
            name for name in archive.namelist() if name.endswith("/fra.txt") and name[0] != "_"
        ]
        text = io.TextIOWrapper(archive.open(name), encoding="utf-8", newline="\n")
        once = [line.rstrip("\n").split("\t")[:2] for line in text]
    repeated = (
        (english + suffix, french + suffix)
        for suffix in itertools.chain([""], (f" {number}" for number in itertools.count(2)))
        for english, french in once
    )
    return ["\t".join(pair) + "\n" for pair in itertools.islice(repeated, pairs)]


def run_once(corpus: str, workers: int) -> dict:
    """One run in this process."""
    experiment = Experiment(
        name="benchmark",
        data={"train": [{"format": "tsv", "path": corpus}]},
        cluster={"workers": workers},
    )
    with tempfile.TemporaryDirectory() as folder:
        silent = rich.console.Console(file=io.StringIO())
        prepared = prepare_timed(experiment, Workspace(pathlib.Path(folder) / "run"), silent)
    written = prepared.manifest["splits"]["train"]["pairs_out"]
    return {"seconds": prepared.seconds, "total": prepared.total_seconds, "written": written}


def run_in_process(corpus: str, workers: int, watch_memory: bool) -> dict:
    """One run in a process of its own; with `peak` memory in bytes if it is watched."""
    command = [sys.executable, __file__, "--once", corpus, "--workers", str(workers)]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    while watch_memory and process.poll() is None:
        peak = max(peak, sum(map(proportional_set_size, process_tree(process.pid))))
        time.sleep(0.5)
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(process.returncode)
    return json.loads(output) | {"peak": peak, "wall": time.monotonic() - started}


def process_tree(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    tree = [root]
    for process in tree:
        tree += children.get(process, [])
    return tree


def proportional_set_size(process: int) -> int:
    """Memory of a process in bytes; what it shares counts by its share."""
    try:
        lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def show(runs: list[dict], pairs: int, peak: int) -> None:
    """Print the medians."""
    console = rich.console.Console()
    title = f"prepare: {pairs:,} pairs, {os.cpu_count()} cores, median of {len(runs)} runs"
    table = rich.table.Table("part", title=title)
    for heading in ("seconds", "least", "most", "pairs/s"):
        table.add_column(heading, justify="right")
    rows = {meaning: [run["seconds"][part] for run in runs] for part, meaning in PARTS.items()}
    rows["total"] = [run["total"] for run in runs]
    rows["whole command, imports too"] = [run["wall"] for run in runs]
    for name, seconds in rows.items():
        middle = statistics.median(seconds)
        numbers = (f"{number:.2f}" for number in (middle, min(seconds), max(seconds)))
        table.add_row(name, *numbers, f"{pairs / middle:,.0f}")
    console.print(table)
    console.print(f"written: {runs[0]['written']:,} pairs; peak memory {peak / 2**20:,.0f} MiB")


def main() -> None:
    """Run the benchmark, or one run of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0, help="0: one a core")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(run_once(options.once, options.workers)))
        return
    folder = pathlib.Path(os.environ.get("SEQLOOM_DATA", ROOT / "../shared/data"))
    with tempfile.TemporaryDirectory() as scratch:
        corpus = pathlib.Path(scratch) / "corpus.tsv"
        corpus.write_text(
            "".join(corpus_lines(folder, options.pairs)), encoding="utf-8", newline="\n"
        )
        runs = [
            run_in_process(str(corpus), options.workers, watch_memory=False)
            for _ in range(options.runs)
        ]
        peak = run_in_process(str(corpus), options.workers, watch_memory=True)["peak"]
    show(runs, options.pairs, peak)


if __name__ == "__main__":
    main()
