"""Bridges: how the encoder's final states become the decoder's first."""

import abc
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from models.cells.kinds import CELLS, state_shapes
from models.cells.options import UNBRIDGEABLE
from models.cells.states import StackState
from models.errors import UserError
from models.initializers import uniform
from models.recurrent import FinalStates


class Bridge(keras.layers.Layer, abc.ABC):
    """Contract of the family: final states of the encoder give the decoder's first state.

    Args:
        cell: The cell of both sides, a key of `models.cells.kinds.CELLS`.
        units: Units of the decoder.
        layers: Layers of the decoder.
        encoder_units: Units a direction of the encoder.
        encoder_layers: Layers of the encoder.
        bidirectional: Whether the encoder reads both ways.
        initializer_range: Kernels start in U(-range, range).
        cell_options: Of the cell of both sides.
    """

    def __init__(
        self,
        cell: str,
        units: int,
        layers: int,
        encoder_units: int,
        encoder_layers: int,
        bidirectional: bool,
        initializer_range: float = 0.1,
        cell_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.cell_name = cell
        self.units = units
        self.layers = layers
        self.encoder_units = encoder_units
        self.encoder_layers = encoder_layers
        self.bidirectional = bidirectional
        self.initializer_range = initializer_range
        self.cell_options = dict(cell_options or {})
        self.state_type: Any = CELLS[cell].state
        # Shapes of the parts of a layer's state, in one direction and without the batch.
        self.shapes = state_shapes(cell, units, cell_options)
        self.encoder_shapes = state_shapes(cell, encoder_units, cell_options)

    def build(self, *_: Any) -> None:
        """Create the weights; a member without any has nothing to do."""

    @abc.abstractmethod
    def call(self, final_states: FinalStates, first_state: StackState) -> StackState:
        """The state that the decoder starts from.

        Args:
            final_states: Of the encoder, [B, ...] a layer, direction and part.
            first_state: What the decoder starts from by itself, [B, ...] a layer and part.

        Returns:
            States as `first_state`.
        """

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "cell": self.cell_name,
            "units": self.units,
            "layers": self.layers,
            "encoder_units": self.encoder_units,
            "encoder_layers": self.encoder_layers,
            "bidirectional": self.bidirectional,
            "initializer_range": self.initializer_range,
            "cell_options": dict(self.cell_options),
        }


@keras.saving.register_keras_serializable("seqloom")
class ZeroBridge(Bridge):
    """The decoder starts by itself: from zeros, or from what its cell has learned."""

    def call(self, final_states: FinalStates, first_state: StackState) -> StackState:
        """The decoder's own first state."""
        return first_state


@keras.saving.register_keras_serializable("seqloom")
class CopyBridge(Bridge):
    """The decoder starts from the encoder's final states, layer by layer.

    A bidirectional encoder hands over `[h→ ; h←]`.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        _check_vectors(self, "copy")
        sides = 2 if self.bidirectional else 1
        given = [sides * size for (size,) in self.encoder_shapes]
        wanted = [size for (size,) in self.shapes]
        if given != wanted or self.encoder_layers != self.layers:
            raise UserError(
                f"model.decoder.bridge 'copy' hands over {self.encoder_layers} layers of "
                f"{_listed(given)} units, but the decoder has {self.layers} of {_listed(wanted)}; "
                f"make them equal or use 'dense'"
            )

    def call(self, final_states: FinalStates, first_state: StackState) -> StackState:
        """The final states, directions concatenated, [B, H] a layer and part."""
        if final_states.backward is None:
            return final_states.forward
        pairs = zip(final_states.forward, final_states.backward, strict=True)
        return tuple(
            self.state_type(*[tf.concat(parts, -1) for parts in zip(ahead, back, strict=True)])
            for ahead, back in pairs
        )


@keras.saving.register_keras_serializable("seqloom")
class DenseBridge(Bridge):
    """`s_0 = tanh(W h_1)` (Bahdanau et al. 2015, appendix A.2.2).

    h_1 is the hidden state of the topmost backward layer at the first source word, or the
    final hidden state where the encoder reads one way. Each layer and part has its own W.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        _check_vectors(self, "dense")

    def build(self, *_: Any) -> None:
        """Create one kernel a layer and part, from the encoder's hidden state to the part."""
        parts = list(zip(self.state_type._fields, self.shapes, strict=True))
        self.projections = [
            [self._projection(f"{part}_{layer}", size) for part, (size,) in parts]
            for layer in range(self.layers)
        ]

    def call(self, final_states: FinalStates, first_state: StackState) -> StackState:
        """Projected states, [B, H] a layer and part."""
        top = (final_states.backward or final_states.forward)[-1].hidden  # [B, encoder's H]
        return tuple(
            self.state_type(*[projection(top) for projection in layer])
            for layer in self.projections
        )

    def _projection(self, name: str, size: int) -> keras.layers.Dense:
        projection = keras.layers.Dense(
            size,
            activation="tanh",
            kernel_initializer=uniform(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )
        projection.build((None, *self.encoder_shapes[0]))
        return projection


BRIDGES: dict[str, type[Bridge]] = {"zero": ZeroBridge, "copy": CopyBridge, "dense": DenseBridge}


def _check_vectors(bridge: Bridge, name: str) -> None:
    if bridge.cell_name in UNBRIDGEABLE:
        raise UserError(
            f"model.decoder.bridge '{name}' makes vectors, and the state of the cell "
            f"'{bridge.cell_name}' is more than that; use 'zero'"
        )


def _listed(sizes: list[int]) -> str:
    """Each size once, as in `4` or `2 and 4`."""
    return " and ".join(str(size) for size in dict.fromkeys(sizes))
