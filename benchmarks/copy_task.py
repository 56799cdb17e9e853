"""The copy task of Graves et al. 2014, section 4.1: a Neural Turing Machine against an LSTM.

    python benchmarks/copy_task.py

Each sequence is some random vectors of bits and an end mark; then the vectors are to be
repeated. Both are trained on sequences of 1 to 10 vectors, with the same batches, optimizer and
steps, and asked for sequences of 10, 20 and 30. The LSTM has as many parameters as the Neural
Turing Machine or a few more; another one is trained for five times the steps. Prints the share
of wrong bits of each; 0.5 is guessing.
"""

import os
import time
from typing import Annotated, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import rich.console
import rich.table
import tensorflow as tf
import typer

from models.memory import NTMCell

BITS = 8
LONGEST = 10  # vectors of a sequence trained on
TESTED = (10, 20, 30)
_ROWS = 16  # sequences a step
_TEST_ROWS = 128
_TEST_SEED = 0
_LEARNING_RATE = 0.003
_CLIP = 1.0


class Copies(NamedTuple):
    """Sequences to be copied, T = 2 longest + 1."""

    inputs: tf.Tensor  # [B, T, BITS + 1], the last feature is the end mark
    targets: tf.Tensor  # [B, T, BITS]
    weights: tf.Tensor  # [B, T], 1 where bits are asked for


def main(
    steps: Annotated[int, typer.Option(help="Training steps.")] = 1000,
    seed: Annotated[
        list[int] | None, typer.Option(help="Seed; give several for more runs.")
    ] = None,
    controller: Annotated[str, typer.Option(help="Of the NTM: dense or lstm.")] = "dense",
    lstm_times: Annotated[
        int, typer.Option(help="How many times as many steps a second LSTM is trained; 0: none.")
    ] = 5,
) -> None:
    """Measure."""
    table = rich.table.Table(title=f"Wrong bits, trained on 1 to {LONGEST} vectors of {BITS} bits")
    for name in ("model", "parameters", "seed", "steps", *map(str, TESTED), "seconds"):
        table.add_column(name, justify="right")
    for each in seed or [1, 2, 3]:
        ntm = make_ntm(each, controller)
        runs = [(f"NTM, {controller}", ntm, steps)]
        for times in sorted({1, lstm_times} - {0}):
            runs.append(("LSTM", make_lstm(each, ntm.count_params()), times * steps))
        for name, model, count in runs:
            since = time.perf_counter()
            train(model, count, each)
            seconds = time.perf_counter() - since
            errors = [f"{wrong_bits(model, length):.4f}" for length in TESTED]
            size = f"{model.count_params():,}"
            table.add_row(name, size, str(each), f"{count:,}", *errors, f"{seconds:.0f}")
    rich.console.Console().print(table)


def make_ntm(seed: int, controller: str = "dense") -> keras.Model:
    """A Neural Turing Machine of 64 rows of 20 features, with weights of a seed."""
    keras.utils.set_random_seed(seed)
    cell = NTMCell(100, memory_rows=64, memory_features=20, controller=controller)
    return _with_outputs(keras.layers.RNN(cell, return_sequences=True))


def make_lstm(seed: int, parameters: int) -> keras.Model:
    """The smallest LSTM of no fewer parameters."""
    keras.utils.set_random_seed(seed)
    units = 1
    while 4 * units * (BITS + 1 + units + 1) + (units + 1) * BITS < parameters:
        units += 1
    return _with_outputs(keras.layers.LSTM(units, return_sequences=True, use_cudnn=False))


def train(model: keras.Model, steps: int, seed: int) -> None:
    """Train on sequences of 1 to `LONGEST` vectors.

    Args:
        model: Changed in place.
        steps: Steps; the learning rate falls over them.
        seed: Of the sequences.
    """
    generator = tf.random.Generator.from_seed(seed)
    rate = keras.optimizers.schedules.CosineDecay(_LEARNING_RATE, steps, alpha=0.05)
    optimizer = keras.optimizers.Adam(rate, global_clipnorm=_CLIP)
    optimizer.build(model.trainable_variables)

    @tf.function
    def draw() -> Copies:
        return copies(generator, _ROWS, 1, LONGEST)

    @tf.function(jit_compile=True)
    def step(batch: Copies) -> None:
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(batch.targets, model(batch.inputs))
            wanted = losses * batch.weights[..., tf.newaxis]  # [B, T, BITS]
            loss = tf.reduce_sum(wanted) / _ROWS
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for _ in range(steps):
        step(draw())


def wrong_bits(model: keras.Model, length: int) -> float:
    """The share of wrong bits in copies of sequences of one length."""
    generator = tf.random.Generator.from_seed(_TEST_SEED)
    batch = copies(generator, _TEST_ROWS, length, length)
    logits = tf.function(model)(batch.inputs)  # [B, T, BITS]
    wrong = tf.cast((logits > 0) != (batch.targets > 0.5), tf.float32)
    total = tf.reduce_sum(wrong * batch.weights[..., tf.newaxis])
    return float(total / (BITS * tf.reduce_sum(batch.weights)))


def copies(generator: tf.random.Generator, rows: int, shortest: int, longest: int) -> Copies:
    """Sequences of random bits, each of its own length, with blanks after the last bits."""
    lengths = generator.uniform([rows, 1], shortest, longest + 1, tf.int32)  # [B, 1]
    times = tf.range(2 * longest + 1)[tf.newaxis]  # [1, T]
    bits = generator.uniform([rows, 2 * longest + 1, BITS], 0, 2, tf.int32)  # [B, T, BITS]
    given = tf.cast(times < lengths, tf.float32)[..., tf.newaxis]  # [B, T, 1]
    bits = tf.cast(bits, tf.float32) * given
    end = tf.cast(times == lengths, tf.float32)[..., tf.newaxis]  # [B, T, 1]
    sources = tf.maximum(times - lengths - 1, 0)  # [B, T]
    weights = (times > lengths) & (times <= 2 * lengths)  # [B, T]
    return Copies(
        tf.concat([bits, end], -1),
        tf.gather(bits, sources, batch_dims=1),
        tf.cast(weights, tf.float32),
    )


def _with_outputs(layer: keras.layers.Layer) -> keras.Model:
    model = keras.Sequential([layer, keras.layers.Dense(BITS)])
    model.build((None, None, BITS + 1))
    return model


if __name__ == "__main__":
    typer.run(main)
