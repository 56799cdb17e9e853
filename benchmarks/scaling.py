"""What a step costs on many workers, and what more of them would cost over a network.

    SEQLOOM_DATA=../shared/data python benchmarks/scaling.py

Multi30k English→German, the model of `benchmarks/training.py`. Every worker is a process of its
own with one core of its own, and a batch of the same size whatever their number, so that a step
of two should take as long as one of one. Each repeats one batch. Timed alone, too, are the sum
over workers, of tensors of the gradients' shapes, and the reading of batches: whole ones, and, of
one worker, the planning of an epoch, which workers with readers of their own do before it. From
these follows what 8 and 64 workers would do on networks of 10 and 100 Gbit/s.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Annotated, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import rich.console
import rich.table
import tensorflow as tf
import typer

from pipeline.batch_plan import BatchOptions
from pipeline.experiment import Experiment
from pipeline.experiment_file import workspace_of
from pipeline.prepare.run import prepare
from pipeline.submit.gang import free_addresses
from pipeline.tasks.members import make_task
from pipeline.train.replicas import Cluster, Replicas, make_strategy
from pipeline.train.steps import Steps
from pipeline.train.trainer import make_optimizer

DATA = pathlib.Path(os.environ.get("SEQLOOM_DATA", "../shared/data")) / "multi30k-en-de"
WARM_UP = 3
PROJECTED = (8, 64)
GBIT = 125e6  # bytes a second


class Measured(NamedTuple):
    """What the chief of some workers has measured."""

    workers: int
    step: float  # seconds, median
    summing: float  # seconds of the sum over workers alone, median
    tokens: float  # target words of all workers' batches, end marks included
    gradients: int  # bytes
    reading: float  # seconds to read a batch of all workers
    planning: float  # seconds to plan an epoch of the whole split


def main(
    steps: Annotated[int, typer.Option(min=1, help="Steps that are timed.")] = 20,
    batch_tokens: Annotated[int, typer.Option(help="Positions a worker's batch.")] = 1024,
    workers: Annotated[int, typer.Option(min=1, help="The most that are started.")] = 2,
    measure_in: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measure."""
    if measure_in:
        print(json.dumps(_measure(measure_in, steps, batch_tokens)))
        return
    if not DATA.is_dir():
        sys.exit(f"{DATA}: no such folder; set SEQLOOM_DATA to the folder that holds it")
    console = rich.console.Console()
    with tempfile.TemporaryDirectory() as folder:
        experiment = _experiment(folder)
        prepare(experiment, workspace_of(experiment), console)
        flags = [f"--measure-in={folder}", f"--steps={steps}", f"--batch-tokens={batch_tokens}"]
        found = [_start(count, flags) for count in range(1, workers + 1)]
    _show_measured(console, found)
    if workers > 1:
        _show_projected(console, found)


def _experiment(folder: str) -> Experiment:
    pair = {
        "format": "parallel",
        "source": str(DATA / "train.en.gz"),
        "target": str(DATA / "train.de.gz"),
    }
    return Experiment.model_validate(
        {
            "name": "multi30k",
            "workspace": folder,
            "data": {"train": [pair], "source_language": "en", "target_language": "de"},
            "cluster": {"intra_op_threads": 1, "inter_op_threads": 1},
        }
    )


def _start(count: int, flags: list[str]) -> Measured:
    """What some workers measure."""
    addresses = free_addresses(count)
    processes = []
    for index in range(count):
        config = {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
        }
        environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
        command = [sys.executable, __file__, *flags]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
    lines = [process.communicate()[0].decode() for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("a worker failed")
    return Measured(*json.loads(lines[0].splitlines()[-1]))


def _measure(folder: str, steps: int, batch_tokens: int) -> Measured:
    """Time steps, and sums over workers, in one of the workers."""
    cluster = Cluster.of_environment()
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[cluster.index % len(cores)]})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = make_strategy(cluster)
    replicas = Replicas(strategy, cluster)
    experiment = _experiment(folder)
    task = make_task(experiment, workspace_of(experiment))
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = task.build_model()
        optimizer = make_optimizer(experiment.train)
        optimizer.build(model.trainable_variables)
        training = Steps(model, optimizer, experiment.train.clip, 1, strategy)
    cut = BatchOptions(batch_tokens * cluster.workers, experiment.train.shuffle_pool)
    shards = workspace_of(experiment).shards("train")
    batch = next(iter(replicas.split(task.training_batches(shards, cut, 0))))
    shapes = [variable.shape for variable in model.trainable_variables]

    def sums() -> list[tf.Tensor]:
        context = tf.distribute.get_replica_context()
        values = [tf.ones(shape) for shape in shapes]
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    summing = tf.function(lambda: strategy.run(sums))
    step = tf.constant(0, tf.int64)
    first = strategy.experimental_local_results
    tokens = float(first(training.train(batch, step).sums.tokens)[0])
    return Measured(
        cluster.workers,
        _median(lambda: first(training.train(batch, step).sums.tokens)[0].numpy(), steps),
        _median(lambda: first(summing())[0][-1].numpy(), steps) if cluster.workers > 1 else 0.0,
        tokens,
        sum(4 * shape.num_elements() for shape in shapes),
        _seconds_to_read(task.training_batches(shards, cut, 0), steps),
        _median(lambda: task.epoch_length(shards, cut, 0), 3),
    )


def _seconds_to_read(batches: tf.data.Dataset, count: int) -> float:
    """Seconds a batch, once the pool that is shuffled in is full."""
    several = iter(batches)
    next(several)
    since = time.perf_counter()
    read = sum(1 for _, _ in zip(range(count), several, strict=False))
    return (time.perf_counter() - since) / read


def _median(run: Callable[[], object], times: int) -> float:
    """Seconds that something takes."""
    for _ in range(WARM_UP):
        run()
    seconds = []
    for _ in range(times):
        since = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - since)
    return statistics.median(seconds)


def _show_measured(console: rich.console.Console, found: list[Measured]) -> None:
    table = rich.table.Table(title="Measured, a core a worker", title_justify="left")
    names = ("workers", "step", "sum over workers", "its share", "reading", "target tokens/s")
    for name in names:
        table.add_column(name, justify="right")
    for one in found:
        table.add_row(
            str(one.workers),
            f"{one.step * 1e3:,.0f} ms",
            f"{one.summing * 1e3:,.0f} ms",
            f"{one.summing / one.step:.0%}",
            f"{one.reading * 1e3:,.1f} ms",
            f"{one.tokens / one.step:,.0f}",
        )
    console.print(table)


def _show_projected(console: rich.console.Console, found: list[Measured]) -> None:
    """Steps of more workers: one worker's, and what a ring needs to sum the gradients."""
    one, most = found[0], found[-1]
    rate = _sent(most.workers) * most.gradients / most.summing
    console.print(
        f"Gradients: {most.gradients / 1e6:,.1f} MB. {most.workers} workers on this machine sum "
        f"them at {rate / GBIT:,.1f} Gbit/s each way."
    )
    title = "Computed: step, and tokens/s over those of as many single workers"
    table = rich.table.Table(title=title, title_justify="left")
    speeds = ("10 Gbit/s", "100 Gbit/s", "as fast as here")
    for name in ("workers", *speeds, "reading", "reading, readers each", "planning an epoch"):
        table.add_column(name, justify="right")
    for count in PROJECTED:
        cells = []
        for speed in (10 * GBIT, 100 * GBIT, rate):
            step = one.step + _sent(count) * one.gradients / speed
            cells.append(f"{step * 1e3:,.0f} ms, {one.step / step:.0%}")
        # Beside the step, by other cores; and with readers of each worker's own.
        whole, own = f"{count * one.reading * 1e3:,.0f} ms", f"{one.reading * 1e3:,.1f} ms"
        table.add_row(str(count), *cells, whole, own, f"{one.planning / count:,.2f} s")
    console.print(table)


def _sent(workers: int) -> float:
    """How often each worker of a ring sends the gradients' size."""
    return 2 * (workers - 1) / workers


if __name__ == "__main__":
    typer.run(main)
