"""Gradient flow of a simple RNN, a GRU and an LSTM, before and after they learn to remember.

    python benchmarks/gradient_flow.py

The task: name the first symbol of a sequence of 2 to 30 random ones. Each cell has 64 units,
starts as the product's layers do, in U(-0.1, 0.1), and is trained in the same way on the same
sequences. Then ‖∂h_t/∂h_(t-d)‖ is measured on sequences of 40. Prints the norms by distance,
with the bound of the simple RNN, and draws docs/images/gradient-flow.png.
"""

import os
import pathlib
import time
from typing import Annotated, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import rich.console
import rich.table
import tensorflow as tf
import typer
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from models.cells.kinds import make_layer
from models.gradient_flow import LayerFlow, measure
from pipeline.monitor.gradient_flow import plot

# Names of `models.cells.kinds.CELLS` and what they are given.
CELLS: dict[str, tuple[str, dict[str, str]]] = {
    "simple RNN": ("simple_rnn", {}),
    "simple RNN, relu, identity": (
        "simple_rnn",
        {"activation": "relu", "recurrent_initializer": "identity"},
    ),
    "GRU": ("gru", {}),
    "LSTM": ("lstm", {}),
}
SHOWN = (1, 2, 5, 10, 20, 30, 39)
_SYMBOLS = 8
_UNITS = 64
_LONGEST = 30
_MEASURED_LENGTH = 40
_MEASURED_SEQUENCES = 8


class Outcome(NamedTuple):
    """What came of one cell."""

    before: LayerFlow
    after: LayerFlow
    accuracy: float  # share of sequences of the longest trained length whose first symbol it names


def main(
    steps: Annotated[int, typer.Option(help="Training steps a cell.")] = 1500,
    rows: Annotated[int, typer.Option(help="Sequences a step.")] = 64,
    shortest: Annotated[int, typer.Option(help="Shortest sequence trained on.")] = 2,
    seed: Annotated[int, typer.Option(help="Of weights and sequences.")] = 1,
    picture: Annotated[pathlib.Path, typer.Option(help="Where the plot goes.")] = pathlib.Path(
        "docs/images/gradient-flow.png"
    ),
) -> None:
    """Train and measure."""
    console = rich.console.Console()
    since = time.perf_counter()
    tf.config.experimental.enable_op_determinism()
    outcomes = {name: _outcome(*cell, steps, rows, shortest, seed) for name, cell in CELLS.items()}
    _show(console, outcomes)
    _draw(outcomes, picture)
    console.print(f"{time.perf_counter() - since:.0f} s; {picture}")


def _outcome(
    cell: str, options: dict[str, str], steps: int, rows: int, shortest: int, seed: int
) -> Outcome:
    keras.utils.set_random_seed(seed)
    generator = np.random.default_rng(seed)
    model = keras.Sequential(
        [
            keras.layers.Input((None, _SYMBOLS)),
            make_layer(cell, _UNITS, options),
            keras.layers.Dense(_SYMBOLS),
        ]
    )
    measured = [_batch(generator, 1, _MEASURED_LENGTH)[0] for _ in range(_MEASURED_SEQUENCES)]
    (before,) = measure(model, measured, max(SHOWN))
    _train(model, steps, rows, shortest, generator)
    (after,) = measure(model, measured, max(SHOWN))
    inputs, labels = _batch(generator, 1000, _LONGEST)
    right = np.asarray(model(inputs)).argmax(-1) == labels.numpy()
    return Outcome(before, after, float(right.mean()))


def _batch(generator: np.random.Generator, rows: int, length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Sequences [B, T, V] and the first symbol of each [B]."""
    symbols = generator.integers(0, _SYMBOLS, [rows, length])
    return tf.one_hot(symbols, _SYMBOLS), tf.constant(symbols[:, 0])


def _train(
    model: keras.Model, steps: int, rows: int, shortest: int, generator: np.random.Generator
) -> None:
    optimizer = keras.optimizers.Adam(3e-3, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(inputs: tf.Tensor, labels: tf.Tensor) -> None:
        variables = [variable.value for variable in model.trainable_variables]
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)  # [B, V]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [B]
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, variables), model.trainable_variables)

    for _ in range(steps):
        length = int(generator.integers(shortest, _LONGEST + 1))
        step(*_batch(generator, rows, length))


def _show(console: rich.console.Console, outcomes: dict[str, Outcome]) -> None:
    title = f"‖∂h_t/∂h_(t-d)‖, mean of {_MEASURED_SEQUENCES} sequences of {_MEASURED_LENGTH}"
    table = rich.table.Table(title=title, title_justify="left")
    table.add_column("cell")
    table.add_column("weights")
    table.add_column("norm of")
    table.add_column("first symbol")
    for distance in SHOWN:
        table.add_column(f"d = {distance}", justify="right")
    for name, outcome in outcomes.items():
        for weights, flow in (("initial", outcome.before), ("trained", outcome.after)):
            score = f"{outcome.accuracy:.1%}" if flow is outcome.after else ""
            table.add_row(name, weights, "hidden", score, *_cells(flow.hidden))
            if (flow.state != flow.hidden).any():
                table.add_row(name, weights, "state", score, *_cells(flow.state))
            if flow.bound is not None:
                table.add_row(name, weights, "bound", "", *_cells(flow.bound))
    console.print(table)


def _cells(norms: np.ndarray) -> list[str]:
    return [f"{norms[distance - 1]:.1e}" for distance in SHOWN]


def _draw(outcomes: dict[str, Outcome], path: pathlib.Path) -> None:
    figure = Figure(figsize=(10.0, 4.2), dpi=100)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, title in ((left, "initial"), (right, "trained")):
        curves = {}
        for name, outcome in outcomes.items():
            flow = outcome.before if title == "initial" else outcome.after
            curves[name] = flow.state
            if flow.bound is not None:
                curves[f"{name}, bound"] = flow.bound
        plot(axes, curves)
        axes.set_title(f"{title} weights")
    right.set_ylabel("")
    right.get_legend().remove()  # It is the left one's, and would hide lines here.
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")


if __name__ == "__main__":
    typer.run(main)
