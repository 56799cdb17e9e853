"""What a training step costs as the vocabulary grows, under each loss.

    python benchmarks/losses.py [--sizes 8192,32768,131072,524288] [--out losses.png]

A language model of one LSTM, embeddings and units of 512, is trained by the pipeline's own steps
on batches of 1,024 words, drawn by Zipf's law; sampled losses draw 256 noise words. Embedding and
projection both have V rows. Each loss and size is measured in a process of its own: seconds are
medians over steps after warm-up, by the clock and of processor time (which other work on the
machine disturbs less), and memory is the peak of the process. A cell whose memory would not fit,
by an estimate, is left out and said to be.
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from typing import Annotated, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import rich.console
import rich.table
import typer

LOSSES = ("full", "sampled", "nce")
FEATURES, ROWS, NOISE_WORDS = 512, 32, 256
FLOAT = 4  # bytes


class Cell(NamedTuple):
    """What one step costs."""

    seconds: float  # by the clock, median
    processor_seconds: float  # of all threads, median
    peak: float  # GiB


def main(
    sizes: Annotated[str, typer.Option(help="Vocabularies.")] = "8192,32768,131072,524288",
    positions: Annotated[int, typer.Option(help="Words of a batch, a multiple of 32.")] = 1024,
    steps: Annotated[int, typer.Option(help="Steps measured.")] = 5,
    warmup: Annotated[int, typer.Option(help="Steps before them.")] = 3,
    optimizer: Annotated[str, typer.Option(help="adam, lazy_adam or sgd.")] = "lazy_adam",
    out: Annotated[pathlib.Path, typer.Option(help="The picture.")] = pathlib.Path("losses.png"),
    cell: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure, print a table and draw it; or measure one cell."""
    if cell:
        loss, size = cell.split(",")
        print(json.dumps(measure(loss, int(size), positions, steps, warmup, optimizer)))
        return
    console = rich.console.Console()
    given = [f"--positions={positions}", f"--steps={steps}", f"--warmup={warmup}"]
    given.append(f"--optimizer={optimizer}")
    cells: dict[tuple[str, int], Cell | None] = {}
    for size in map(int, sizes.split(",")):
        for loss in LOSSES:
            needed, free = estimate(loss, size, positions, optimizer), available()
            if needed < 0.8 * free:
                cells[loss, size] = measure_elsewhere([*given, f"--cell={loss},{size}"])
                continue
            cells[loss, size] = None
            console.print(
                f"{loss} at {size:,} is left out: about {needed:.1f} GiB, and {free:.1f} are free"
            )
    _show(console, cells, f"{positions} words a batch, {optimizer}, {os.cpu_count()} cores")
    _draw(cells, out)
    console.print(f"Drawn in {out}")


def measure_elsewhere(options: list[str]) -> Cell:
    """A cell, measured in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *options], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return Cell(*json.loads(done.stdout.splitlines()[-1]))


def estimate(loss: str, size: int, positions: int, optimizer: str) -> float:
    """GiB that a cell takes, about.

    Two tables and two moments of each; three copies of each dense gradient on its way, which is
    that of the projection under the full softmax, and every table's under Adam; under the full
    softmax also the scores, their softmax and their gradients.
    """
    dense = 2 if optimizer == "adam" else int(loss == "full")
    tables = (2 * 3 + dense * 3) * size * FEATURES
    scores = 3 * positions * size if loss == "full" else 0
    return 0.7 + (tables + scores) * FLOAT / 2**30


def available() -> float:
    """GiB of memory that are free."""
    lines = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    (line,) = [each for each in lines if each.startswith("MemAvailable:")]
    return int(line.split()[1]) / 2**20


def measure(loss: str, size: int, positions: int, steps: int, warmup: int, optimizer: str) -> Cell:
    """A cell, measured in this process."""
    import numpy as np
    import tensorflow as tf

    from models.language_model import LanguageModel
    from models.losses import SAMPLED_LOSSES
    from pipeline.experiment import TrainSection
    from pipeline.train.steps import Steps
    from pipeline.train.trainer import make_optimizer

    options = TrainSection(optimizer=optimizer)
    model = LanguageModel(size, embedding_size=FEATURES, units=FEATURES)
    model.build()
    shares = 1.0 / np.arange(1, size)  # of the ids from 1 on; 0 is the pad
    shares /= shares.sum()
    if loss != "full":
        model.loss_function = SAMPLED_LOSSES[loss](np.append(0, shares * 1e8), NOISE_WORDS)
    updates = make_optimizer(options)
    updates.build(model.trainable_variables)
    compiled = Steps(model, updates, options.clip, 1, tf.distribute.get_strategy())
    generator = np.random.default_rng(1)
    clocks = []
    for step in range(warmup + steps):
        words = 1 + generator.choice(size - 1, (ROWS, positions // ROWS + 1), p=shares)
        words = tf.constant(words, tf.int32)  # [B, T + 1]
        batch = {"target": words[:, :-1]}, words[:, 1:]
        started = time.perf_counter(), time.process_time()
        done = compiled.train(batch, tf.constant(step, tf.int64))
        float(done.sums.loss)
        model.projection.bias.numpy()  # so that the update is done too
        clocks.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    wall, processor = (statistics.median(each) for each in zip(*clocks[warmup:], strict=True))
    return Cell(wall, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def _show(
    console: rich.console.Console, cells: dict[tuple[str, int], Cell | None], conditions: str
) -> None:
    table = rich.table.Table(title=f"A training step: {conditions}", title_justify="left")
    for name in ("V", "loss", "ms", "of full", "processor ms", "of full", "peak GiB"):
        table.add_column(name, justify="left" if name == "loss" else "right")
    for (loss, size), cell in cells.items():
        full = cells["full", size]
        if cell is None:
            table.add_row(f"{size:,}", loss, *["does not fit", *[""] * 4])
            continue
        shares = [""] * 2
        if full is not None:
            shares = [f"1/{a / b:.1f}" for a, b in zip(full[:2], cell[:2], strict=True)]
        table.add_row(
            f"{size:,}",
            loss,
            f"{1000 * cell.seconds:,.0f}",
            shares[0],
            f"{1000 * cell.processor_seconds:,.0f}",
            shares[1],
            f"{cell.peak:.2f}",
            end_section=loss == LOSSES[-1],
        )
    console.print(table)


def _draw(cells: dict[tuple[str, int], Cell | None], path: pathlib.Path) -> None:
    """Time and memory against V, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    titles = {"processor_seconds": "Processor seconds a step", "peak": "Peak memory, GiB"}
    for panel, (field, title) in zip(panels, titles.items(), strict=True):
        for loss in LOSSES:
            known = {size: each for (name, size), each in cells.items() if name == loss and each}
            values = [getattr(each, field) for each in known.values()]
            panel.loglog(list(known), values, marker="o", label=loss)
        panel.set(title=title, xlabel="V")
        panel.set_xticks(sorted({size for _, size in cells}))
        panel.xaxis.set_major_formatter(lambda size, _: f"{size / 1024:.0f}k")
        panel.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        panel.grid(alpha=0.3)
        panel.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    typer.run(main)
