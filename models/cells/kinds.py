"""All cells by name, and the layers made of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras

from models.cells.cell import Cell
from models.cells.gru import GRUCell, SimplifiedGRUCell
from models.cells.layer_norm import LayerNormGRUCell, LayerNormLSTMCell, LayerNormSimpleCell
from models.cells.lstm import LSTMCell
from models.cells.options import CELL_OPTIONS, check_cell_options
from models.cells.simple import SimpleCell
from models.cells.states import GRUState, LSTMState, SimpleState
from models.initializers import uniform
from models.keras_recurrent import GRU, LSTM, SimpleRNN
from models.memory import NTMCell, NTMState
from models.stepwise import CellLayer, StepwiseLayer


class CellKind(NamedTuple):
    """What a name stands for.

    `layer(units, ...)` is a layer of Keras's; where `cell` is given, `layer(cell(units, ...))`.
    """

    layer: type[StepwiseLayer]
    state: Any  # type of a layer's state, its fields in the order of the cell's `state_size`
    cell: type[keras.layers.Layer] | None = None
    settings: Mapping[str, Any] = {}


def _ours(state: Any, cell: type[Cell], **settings: Any) -> CellKind:
    return CellKind(CellLayer, state, cell, settings)


# What each takes of `model.cell_options` stands in `models.cells.options`.
CELLS: dict[str, CellKind] = {
    "simple_rnn": CellKind(SimpleRNN, SimpleState),
    "lstm": CellKind(LSTM, LSTMState),
    "gru": CellKind(GRU, GRUState),
    "gru_reset_before": CellKind(GRU, GRUState, settings={"reset_after": False}),
    "gru_simplified": _ours(GRUState, SimplifiedGRUCell),
    "peephole_lstm": _ours(LSTMState, LSTMCell, peepholes=True),
    "projected_lstm": _ours(LSTMState, LSTMCell),
    "peephole_projected_lstm": _ours(LSTMState, LSTMCell, peepholes=True),
    "layer_norm_rnn": _ours(SimpleState, LayerNormSimpleCell),
    "layer_norm_lstm": _ours(LSTMState, LayerNormLSTMCell),
    "layer_norm_gru": _ours(GRUState, LayerNormGRUCell),
    "weight_norm_rnn": _ours(SimpleState, SimpleCell, weight_norm=True),
    "weight_norm_lstm": _ours(LSTMState, LSTMCell, weight_norm=True),
    "weight_norm_gru": _ours(GRUState, GRUCell, weight_norm=True),
    "ntm": CellKind(CellLayer, NTMState, NTMCell),
}


def make_layer(
    cell: str,
    units: int,
    options: Mapping[str, Any] | None = None,
    initializer_range: float = 0.1,
    dtype: Any = None,
    **settings: Any,
) -> StepwiseLayer:
    """A recurrent layer of one direction.

    Args:
        cell: A key of `CELLS`.
        units: Hidden units.
        options: `model.cell_options`; None in place of a value leaves it to the cell.
        initializer_range: Kernels start in U(-range, range).
        dtype: Policy of layer and cell.
        **settings: Of `StepwiseLayer` and `keras.layers.RNN`.

    Raises:
        UserError: If the cell does not take an option.
    """
    options = options or {}
    check_cell_options(cell, options)
    kind = CELLS[cell]
    own = {
        **kind.settings,
        **{key: value for key, value in options.items() if value is not None},
        "kernel_initializer": uniform(initializer_range),
        "recurrent_initializer": _recurrent_initializer(
            options.get("recurrent_initializer"), initializer_range
        ),
    }
    if "projection_units" in CELL_OPTIONS[cell]:
        own.setdefault("projection_units", max(1, units // 2))
    if kind.cell is None:
        return kind.layer(units, **own, dtype=dtype, **settings)
    return kind.layer(kind.cell(units, **own, dtype=dtype, name="cell"), dtype=dtype, **settings)


def state_shapes(
    cell: str, units: int, options: Mapping[str, Any] | None = None
) -> list[tuple[int, ...]]:
    """Shapes of the parts of a layer's state, without the batch, the hidden state's first."""
    return shapes_of(make_layer(cell, units, options))


def shapes_of(layer: keras.layers.RNN) -> list[tuple[int, ...]]:
    """The same of a layer at hand."""
    return [(size,) if isinstance(size, int) else tuple(size) for size in layer.state_size]


def _recurrent_initializer(name: str | None, limit: float) -> keras.initializers.Initializer:
    made = {
        "orthogonal": keras.initializers.Orthogonal,
        "identity": keras.initializers.Identity,
    }
    return made[name]() if name in made else uniform(limit)
