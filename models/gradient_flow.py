"""Gradient flow: how much of a step's hidden state still moves one that comes later.

The Jacobian of a recurrence over d steps is a product of d Jacobians of one,
`∂h_t/∂h_(t-d) = J_t J_(t-1) ... J_(t-d+1)`. Where its norm dies out with d, a loss at step t
teaches nothing about step t - d; where it grows, gradients explode (Pascanu et al. 2013,
section 2; Hochreiter & Schmidhuber 1997, section 3).

All norms are spectral: the largest singular value, which is how much a small change of the
earlier state grows or shrinks at most on its way. Inputs are held as they are, so that the path
is the recurrence alone, of one layer.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from models.cells.simple import SimpleCell
from models.recording import RecordedSequence, record

# Largest slope |f'| of the activations that a simple recurrent cell may have.
SLOPES: dict[Any, float] = {
    keras.activations.tanh: 1.0,
    keras.activations.sigmoid: 0.25,
    keras.activations.relu: 1.0,
    keras.activations.linear: 1.0,
}


class SequenceFlow(NamedTuple):
    """Norms from the last step of one sequence back to each before it, for d from 1 on."""

    hidden: np.ndarray  # [D], float64: ‖∂h_T/∂h_(T-d)‖, all else of the earlier state held
    state: np.ndarray  # [D], float64: ‖∂s_T/∂s_(T-d)‖ of all parts of the state together


@dataclasses.dataclass(frozen=True)
class LayerFlow:
    """Norms of one recurrent layer and direction, averaged over sequences.

    The first part of a state is the hidden state. Where it is all of the state, as in a simple
    RNN or a GRU, the two norms are the same; an LSTM's state is (h, c), and most of what it
    carries goes through c.

    Attributes:
        name: Path of the layer in the model.
        distances: Distances d, int [D], from 1 on.
        hidden: Means of ‖∂h_T/∂h_(T-d)‖, float64 [D].
        state: Means of ‖∂s_T/∂s_(T-d)‖, float64 [D].
        sequences: Sequences of at least d steps, int [D].
        bound: `(σ_max(W) γ)^d`, float64 [D], where the cell has such a bound.
    """

    name: str
    distances: np.ndarray
    hidden: np.ndarray
    state: np.ndarray
    sequences: np.ndarray
    bound: np.ndarray | None


class CellFlow:
    """The flow through one cell.

    Args:
        cell: Any Keras cell whose rows do not depend on each other; built.
        like: A state of it, for the shapes and types of its parts, [1, ...] each.
    """

    def __init__(self, cell: keras.layers.Layer, like: Any):
        self._cell = cell
        self._parts = tf.nest.map_structure(tf.convert_to_tensor, like)
        flat = tf.nest.flatten(self._parts)
        self._sizes = [math.prod(part.shape[1:]) for part in flat]
        self._dtype = tf.float64 if cell.compute_dtype == "float64" else tf.float32
        # Compiled once for all sequences and steps; a step is D rows of small products.
        self._step = tf.function(self._advance, reduce_retracing=True)
        self._pull = tf.function(self._pulled, reduce_retracing=True)

    def over(self, sequence: RecordedSequence, longest: int) -> SequenceFlow:
        """Norms over one sequence.

        Args:
            sequence: Inputs [T, F] and the state before the first.
            longest: Largest distance.

        Returns:
            Norms for distances from 1 to the smaller of T and `longest`.
        """
        states = self._states(sequence)  # T states [1, D], each before its step
        steps = min(len(states), longest)
        hidden_size = self._sizes[0]
        rows = tf.eye(sum(self._sizes), dtype=self._dtype)  # [D, D]
        logarithm = 0.0
        found: list[tuple[float, float]] = []
        for distance in range(1, steps + 1):
            at = len(states) - distance
            rows = self._pull(rows, sequence.inputs[at][tf.newaxis], states[at])  # [D, D]
            # Kept near 1, since float32 would lose what vanishes within some forty steps.
            scale = float(tf.reduce_max(tf.abs(rows)))
            if scale > 0.0:
                rows /= scale
                logarithm += math.log(scale)
            product = np.asarray(rows, np.float64)
            norms = (_norm(product[:hidden_size, :hidden_size]), _norm(product))
            # At most exp(700), which a double still holds.
            size = math.exp(min(logarithm, 700.0))
            found.append((norms[0] * size, norms[1] * size))
        hidden, state = np.array(found, np.float64).reshape(-1, 2).T
        return SequenceFlow(hidden, state)

    def _states(self, sequence: RecordedSequence) -> list[tf.Tensor]:
        state = self._joined(sequence.initial_state)  # [1, D]
        states = []
        for inputs in sequence.inputs:
            states.append(state)
            state = self._step(inputs[tf.newaxis], state)
        return states

    def _advance(self, inputs: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """States after a step, [N, D], of inputs [N, F] and states [N, D]."""
        parts = [
            tf.cast(tf.reshape(part, [-1, *like.shape[1:]]), like.dtype)
            for part, like in zip(
                tf.split(state, self._sizes, 1), tf.nest.flatten(self._parts), strict=True
            )
        ]
        _, after = self._cell(inputs, tf.nest.pack_sequence_as(self._parts, parts))
        return self._joined(after)

    def _pulled(self, rows: tf.Tensor, inputs: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """`rows · J`, [N, D], J the Jacobian of the step from a state [1, D].

        Every row is a gradient of its own, of a step that is repeated for it, so that J itself
        is never made.
        """
        count = tf.shape(rows)[0]
        repeated = tf.repeat(state, count, 0)  # [N, D]
        with tf.GradientTape() as tape:
            tape.watch(repeated)
            after = self._advance(tf.repeat(inputs, count, 0), repeated)  # [N, D]
        return tape.gradient(
            after,
            repeated,
            output_gradients=rows,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )

    def _joined(self, state: Any) -> tf.Tensor:
        """All parts of states side by side, [N, D]."""
        parts = [
            tf.cast(tf.reshape(part, [-1, size]), self._dtype)
            for part, size in zip(tf.nest.flatten(state), self._sizes, strict=True)
        ]
        return tf.concat(parts, 1)


def measure(model: keras.Model, examples: Iterable[Any], longest: int) -> list[LayerFlow]:
    """Flow through every recurrent layer that a model runs.

    The model is left as it was, its random generators too.

    Args:
        model: Any model, built, that runs without being compiled.
        examples: The model's inputs, one row each.
        longest: Largest distance.

    Returns:
        A flow a layer and direction, by name. A layer that ran over no step is left out.
    """
    cells: dict[str, CellFlow] = {}
    layers: dict[str, keras.layers.RNN] = {}
    flows: dict[str, list[SequenceFlow]] = {}
    kept = [(variable, variable.numpy()) for variable in model.non_trainable_variables]
    for example in examples:
        for name, sequence in record(model, example).items():
            if name not in cells:
                layers[name] = sequence.layer
                cells[name] = CellFlow(sequence.layer.cell, sequence.initial_state)
            flows.setdefault(name, []).append(cells[name].over(sequence, longest))
    for variable, value in kept:
        variable.assign(value)
    return [_averaged(name, layers[name].cell, flows[name]) for name in sorted(flows)]


def bound_factor(cell: keras.layers.Layer) -> float | None:
    """`σ_max(W) γ`: what a step of a simple RNN multiplies a gradient by at most.

    W is the recurrent kernel and γ the largest slope of the activation (Pascanu et al. 2013,
    section 2.1).

    Args:
        cell: Any cell, built.

    Returns:
        The factor; None for any but plain simple cells. Gates carry the state past the kernel,
        and what could be said of their cells in this way is above 1 always.
    """
    if isinstance(cell, keras.layers.SimpleRNNCell):
        kernel = cell.recurrent_kernel  # [H, H]
    elif type(cell) is SimpleCell:
        kernel = cell.constants()["recurrent_kernel"]  # [H, H], normalised where its weights are
    else:
        return None
    slope = SLOPES.get(cell.activation)
    return None if slope is None else slope * _norm(np.asarray(kernel, np.float64))


def _averaged(name: str, cell: keras.layers.Layer, flows: Sequence[SequenceFlow]) -> LayerFlow:
    longest = max(len(flow.hidden) for flow in flows)
    distances = np.arange(1, longest + 1)
    factor = bound_factor(cell)
    return LayerFlow(
        name,
        distances,
        _means([flow.hidden for flow in flows], longest),
        _means([flow.state for flow in flows], longest),
        np.array([sum(len(flow.hidden) >= each for flow in flows) for each in distances]),
        None if factor is None else factor**distances,
    )


def _means(rows: Sequence[np.ndarray], longest: int) -> np.ndarray:
    """Means [longest] of rows of different lengths, each over those that are long enough."""
    table = np.full([len(rows), longest], np.nan)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return np.nanmean(table, 0)


def _norm(matrix: np.ndarray) -> float:
    """The spectral norm; NaN, in place of an error, where a number is not finite."""
    return float(np.linalg.norm(matrix, 2)) if np.isfinite(matrix).all() else math.nan
