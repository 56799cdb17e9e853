"""Training speed on Multi30k English→German, with the CPU loop and with Keras's own.

    SEQLOOM_DATA=../shared/data python benchmarks/training.py

Bidirectional LSTM of 256 units a direction, LSTM decoder of 512, vocabularies of 8,000, Adam.
Both loops train the same weights on the same batches, turn and turn about, so that a machine
that changes its speed changes both. Prints medians over rounds, and their ratio.
"""

import os
import pathlib
import resource
import statistics
import sys
import tempfile
import time
from typing import Annotated

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import rich.console
import rich.table
import tensorflow as tf
import typer

from models import keras_recurrent
from pipeline.batch_plan import BatchOptions
from pipeline.experiment import Experiment
from pipeline.experiment_file import workspace_of
from pipeline.prepare.run import prepare
from pipeline.tasks.members import make_task
from pipeline.train.steps import Steps
from pipeline.train.trainer import make_optimizer

DATA = pathlib.Path(os.environ.get("SEQLOOM_DATA", "../shared/data")) / "multi30k-en-de"


def main(
    rounds: Annotated[int, typer.Option(help="Rounds of each loop.")] = 5,
    steps: Annotated[int, typer.Option(help="Steps a round.")] = 12,
    batch_tokens: Annotated[int, typer.Option(help="Positions a batch.")] = 2048,
    precision: Annotated[str, typer.Option(help="float32 or mixed_bfloat16.")] = "float32",
) -> None:
    """Measure."""
    if not DATA.is_dir():
        sys.exit(f"{DATA}: no such folder; set SEQLOOM_DATA to the folder that holds it")
    console = rich.console.Console()
    with tempfile.TemporaryDirectory() as folder:
        experiment = _experiment(folder, batch_tokens, precision)
        prepare(experiment, workspace_of(experiment), console)
        rates = {"fast": [], "keras": []}
        runs = {name: _Run(experiment, name == "fast") for name in rates}
        for run in runs.values():
            run.tokens_per_second(2)
        for _ in range(rounds):
            for name, run in runs.items():
                rates[name].append(run.tokens_per_second(steps))
    _show(console, rates)


def _experiment(folder: str, batch_tokens: int, precision: str) -> Experiment:
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
            "train": {"batch_tokens": batch_tokens, "precision": precision},
        }
    )


class _Run:
    """A model being trained with one of the two loops."""

    def __init__(self, experiment: Experiment, fast: bool):
        workspace = workspace_of(experiment)
        options = experiment.train
        keras.utils.set_random_seed(1)
        keras.config.set_dtype_policy(options.precision)
        self._choose(fast)
        self._fast = fast
        task = make_task(experiment, workspace)
        self._model = task.build_model()
        optimizer = make_optimizer(options)
        optimizer.build(self._model.trainable_variables)
        strategy = tf.distribute.get_strategy()
        self._steps = Steps(self._model, optimizer, options.clip, 1, strategy)
        cut = BatchOptions(options.batch_tokens, options.shuffle_pool)
        self._batches = iter(task.training_batches(workspace.shards("train"), cut, 0))
        self._done = 0

    def tokens_per_second(self, steps: int) -> float:
        """Target words a second over the next steps, end marks included, pads not."""
        self._choose(self._fast)
        tokens = 0.0
        since = time.perf_counter()
        for _ in range(steps):
            step = self._steps.train(next(self._batches), tf.constant(self._done, tf.int64))
            tokens += float(step.sums.tokens)
            self._done += 1
        return tokens / (time.perf_counter() - since)

    @staticmethod
    def _choose(fast: bool) -> None:
        """The loop that graphs traced from now on take."""
        keras_recurrent.FAST_LOOP = fast


def _show(console: rich.console.Console, rates: dict[str, list[float]]) -> None:
    table = rich.table.Table(title="Target tokens/s, median of rounds", title_justify="left")
    for name in ("loop", "median", "lowest", "highest"):
        table.add_column(name)
    for name, found in rates.items():
        table.add_row(name, *(f"{f(found):,.0f}" for f in (statistics.median, min, max)))
    console.print(table)
    pairs = zip(rates["fast"], rates["keras"], strict=True)
    ratio = statistics.median(fast / own for fast, own in pairs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    console.print(f"fast over keras, median of pairs: {ratio:.2f}; peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    typer.run(main)
