"""Gradient flow of a run: measured at validations, kept as a table beside TensorBoard's logs."""

import csv
import heapq
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence

import keras
import tensorflow as tf

from models.gradient_flow import LayerFlow, measure
from models.language_model import CONTINUES
from models.special_ids import PAD_ID
from pipeline.places import Place
from pipeline.workspace import write_text

FILE_NAME = "gradient_flow.csv"
COLUMNS = ("step", "layer", "distance", "sequences", "hidden_norm", "state_norm", "bound")

Inputs = dict[str, tf.Tensor]


class GradientFlowReport:
    """Measures the flow through a model on the same sentences each time.

    Args:
        model: The model, built.
        batches: (inputs, labels) of the validation split, gone through once.
        sentences: Sentences measured: the longest, since only they reach far.
        longest: Largest distance.
        folder: Where the table lies.
    """

    def __init__(
        self,
        model: keras.Model,
        batches: Iterable[tuple[Inputs, tf.Tensor]],
        sentences: int,
        longest: int,
        folder: Place,
    ):
        self._model = model
        self._examples = longest_rows(batches, sentences)
        self._longest = longest
        self._path = folder / FILE_NAME

    def measure(self, step: int) -> list[LayerFlow]:
        """Measure, and add the outcome to the table.

        Lines of this step and of later ones, which a run that died wrote before it was resumed
        from an earlier checkpoint, are written anew.

        Args:
            step: Steps done.

        Returns:
            A flow a recurrent layer.
        """
        flows = measure(self._model, self._examples, self._longest)
        rows = [*_rows_before(self._path, step), *_rows(step, flows)]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
        write_text(self._path, text.getvalue())
        return flows


def longest_rows(batches: Iterable[tuple[Inputs, tf.Tensor]], count: int) -> list[Inputs]:
    """The rows with the most words of some batches, each without pads.

    Args:
        batches: (inputs, labels); inputs that are no ids are taken as they are.
        count: Rows at most.

    Returns:
        Inputs of one row each, the longest first; of equal ones, those that come first.
    """
    order = itertools.count()
    sized = ((_words(row), -next(order), row) for row in _single_rows(batches))
    found = heapq.nlargest(count, sized, key=lambda each: each[:2])
    return [row for words, _, row in found if words]


def _single_rows(batches: Iterable[tuple[Inputs, tf.Tensor]]) -> Iterator[Inputs]:
    for inputs, _ in batches:
        rows = next(iter(inputs.values())).shape[0]
        for index in range(rows):
            # Alone, a segment of a stream has no state to read on from.
            yield {
                name: _without_pads(values[index : index + 1])
                for name, values in inputs.items()
                if name != CONTINUES
            }


def _words(row: Inputs) -> int:
    return sum(_length(values) for values in row.values() if _is_ids(values))


def _without_pads(values: tf.Tensor) -> tf.Tensor:
    return values[:, : _length(values)] if _is_ids(values) else values


def _is_ids(values: tf.Tensor) -> bool:
    return values.dtype.is_integer and values.shape.rank == 2


def _length(ids: tf.Tensor) -> int:
    """Columns [1, L] of ids up to the last that is no pad."""
    real = tf.where(tf.not_equal(ids[0], PAD_ID))[:, 0]  # [N]
    return int(real[-1]) + 1 if len(real) else 0


def _rows(step: int, flows: Sequence[LayerFlow]) -> Iterator[tuple]:
    for flow in flows:
        for index, distance in enumerate(flow.distances):
            yield (
                step,
                flow.name,
                int(distance),
                int(flow.sequences[index]),
                f"{flow.hidden[index]:.6g}",
                f"{flow.state[index]:.6g}",
                "" if flow.bound is None else f"{flow.bound[index]:.6g}",
            )


def _rows_before(path: Place, step: int) -> list[list[str]]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [row for row in itertools.islice(csv.reader(lines), 1, None) if int(row[0]) < step]
