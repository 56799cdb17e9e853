"""Bridges: how the encoder's final states become the decoder's first."""

import abc
from typing import Any

import keras
import tensorflow as tf

from models.errors import UserError
from models.initializers import uniform
from models.recurrent import CELLS, FinalStates, StackState


class Bridge(keras.layers.Layer, abc.ABC):
    """Contract of the family: final states of the encoder give the decoder's first state.

    Args:
        cell: The cell of both sides, a key of `models.recurrent.CELLS`.
        units: Units of the decoder.
        layers: Layers of the decoder.
        encoder_units: Units a direction of the encoder.
        encoder_layers: Layers of the encoder.
        bidirectional: Whether the encoder reads both ways.
        initializer_range: Kernels start in U(-range, range).
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
        self.state_type: Any = CELLS[cell][1]

    def build(self, *_: Any) -> None:
        """Create the weights; a member without any has nothing to do."""

    @abc.abstractmethod
    def call(self, final_states: FinalStates) -> StackState:
        """First decoder state, [B, units] a layer and part, of final states [B, encoder_units]."""

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
        }


@keras.saving.register_keras_serializable("seqloom")
class ZeroBridge(Bridge):
    """The decoder starts from zeros."""

    def call(self, final_states: FinalStates) -> StackState:
        """Zeros, [B, units] a layer and part."""
        batch = tf.shape(final_states.forward[0].hidden)[0]
        zeros = tf.zeros([batch, self.units], self.compute_dtype)  # [B, units]
        parts = len(self.state_type._fields)
        return tuple(self.state_type(*[zeros] * parts) for _ in range(self.layers))


@keras.saving.register_keras_serializable("seqloom")
class CopyBridge(Bridge):
    """The decoder starts from the encoder's final states, layer by layer.

    A bidirectional encoder hands over `[h→ ; h←]`.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        width = self.encoder_units * (2 if self.bidirectional else 1)
        if width != self.units or self.encoder_layers != self.layers:
            raise UserError(
                f"model.decoder.bridge 'copy' hands over {self.encoder_layers} layers of {width} "
                f"units, but the decoder has {self.layers} of {self.units}; make them equal or "
                f"use 'dense'"
            )

    def call(self, final_states: FinalStates) -> StackState:
        """The final states, directions concatenated, [B, units] a layer and part."""
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

    def build(self, *_: Any) -> None:
        """Create one kernel [encoder_units, units] a layer and part."""
        self.projections = [
            [self._projection(f"{part}_{layer}") for part in self.state_type._fields]
            for layer in range(self.layers)
        ]

    def call(self, final_states: FinalStates) -> StackState:
        """Projected states, [B, units] a layer and part."""
        top = (final_states.backward or final_states.forward)[-1].hidden  # [B, encoder_units]
        return tuple(
            self.state_type(*[projection(top) for projection in layer])
            for layer in self.projections
        )

    def _projection(self, name: str) -> keras.layers.Dense:
        projection = keras.layers.Dense(
            self.units,
            activation="tanh",
            kernel_initializer=uniform(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )
        projection.build((None, self.encoder_units))
        return projection


BRIDGES: dict[str, type[Bridge]] = {"zero": ZeroBridge, "copy": CopyBridge, "dense": DenseBridge}
