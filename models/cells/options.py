"""Which cells there are and what each takes; without TensorFlow, so that files can be checked.

`models.cells.kinds` holds the cells themselves.
"""

from collections.abc import Mapping
from typing import Any

from models.errors import UserError

_SIMPLE = ("activation", "recurrent_initializer")

# Keys of `model.cell_options` that each cell takes.
CELL_OPTIONS: dict[str, tuple[str, ...]] = {
    "simple_rnn": _SIMPLE,
    "lstm": (),
    "gru": (),
    "gru_reset_before": (),
    "gru_simplified": (),
    "peephole_lstm": (),
    "projected_lstm": ("projection_units",),
    "peephole_projected_lstm": ("projection_units",),
    "layer_norm_rnn": _SIMPLE,
    "layer_norm_lstm": (),
    "layer_norm_gru": (),
    "weight_norm_rnn": _SIMPLE,
    "weight_norm_lstm": (),
    "weight_norm_gru": (),
    "ntm": (
        "memory_rows",
        "memory_features",
        "read_heads",
        "write_heads",
        "shift_range",
        "controller",
    ),
}

# Cells whose states are more than vectors that start at zero: no bridge can make them.
UNBRIDGEABLE = ("ntm",)

_CHOICES: dict[str, tuple[str, ...]] = {
    "activation": ("tanh", "sigmoid", "relu"),
    "recurrent_initializer": ("uniform", "orthogonal", "identity"),
    "controller": ("lstm", "dense"),
}


def check_cell_options(cell: str, options: Mapping[str, Any]) -> None:
    """Refuse what a cell cannot be told.

    Args:
        cell: A key of `CELL_OPTIONS`.
        options: Keys of `model.cell_options`; None leaves a choice to the cell.

    Raises:
        UserError: Naming the key.
    """
    if cell not in CELL_OPTIONS:
        raise UserError(f"model.cell: got '{cell}', expected one of {', '.join(CELL_OPTIONS)}")
    for key, value in options.items():
        if value is None:
            continue
        if key not in CELL_OPTIONS[cell]:
            takers = [name for name, keys in CELL_OPTIONS.items() if key in keys]
            known = f"only {', '.join(takers)} take it" if takers else "no cell knows it"
            raise UserError(
                f"model.cell_options.{key} is {value!r}, but model.cell is '{cell}' and {known}; "
                f"remove the key or choose another cell"
            )
        if value not in _CHOICES.get(key, (value,)):
            raise UserError(
                f"model.cell_options.{key}: got {value!r}, expected one of "
                f"{', '.join(_CHOICES[key])}"
            )
