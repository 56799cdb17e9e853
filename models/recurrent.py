"""Recurrent layers, one or many deep, in one or two directions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.cells.kinds import CELLS, make_layer, shapes_of
from models.cells.states import StackState
from models.errors import UserError
from models.stepwise import DropoutMasks

StackMasks = tuple[DropoutMasks, ...]  # one entry a layer, the lowest first

MERGES = ("concat", "sum")


class FinalStates(NamedTuple):
    """Final states of a stack after a whole sequence."""

    forward: StackState
    backward: StackState | None  # None in a stack of one direction


@keras.saving.register_keras_serializable("seqloom")
class RecurrentStack(keras.layers.Layer):
    """Recurrent layers upon each other.

    Bidirectional as in Schuster & Paliwal 1997, with residual connections as in Wu et al. 2016,
    section 3.1.

    LSTM and GRU layers are Keras's own with the settings that its fused cuDNN path asks for:
    default activations, biases, masks padded on the right, and no dropout inside the recurrence
    unless it is asked for.

    Args:
        cell: A key of `models.cells.kinds.CELLS`.
        units: Hidden units a direction.
        layers: Depth.
        bidirectional: Read both ways.
        residual: Add a layer's input to its output, from the second layer on.
        dropout: Share of features dropped between layers while training.
        initializer_range: Kernels start in U(-range, range).
        merge: What becomes of the two outputs of a step: `concat` or `sum`.
        cell_options: What the cell takes of `models.cells.options`.
        variational_dropout: Shares dropped while training by one mask a sequence, `inputs` of
            each layer and its `recurrent` state.
    """

    def __init__(
        self,
        cell: str = "lstm",
        units: int = 256,
        layers: int = 1,
        bidirectional: bool = False,
        residual: bool = False,
        dropout: float = 0.0,
        initializer_range: float = 0.1,
        merge: str = "concat",
        cell_options: Mapping[str, Any] | None = None,
        variational_dropout: Mapping[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        _check_merge(merge, bidirectional)
        self.cell_name = cell
        self.units = units
        self.bidirectional = bidirectional
        self.residual = residual
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self.merge = merge
        self.cell_options = dict(cell_options or {})
        self.variational_dropout = dict(variational_dropout or {})
        self.layers = [self._make_layer(index) for index in range(layers)]
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.supports_masking = True

    @property
    def output_size(self) -> int:
        """Features of a step's output."""
        return self.hidden_size * (2 if self.bidirectional and self.merge == "concat" else 1)

    @property
    def hidden_size(self) -> int:
        """Features of a direction's hidden state; not the units where the cell projects."""
        return self.state_shapes[0][0]

    @property
    def state_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the parts of a layer's state in one direction, without the batch."""
        first = self.layers[0]
        return shapes_of(first.forward_layer if self.bidirectional else first)

    @property
    def drops(self) -> bool:
        """Whether variational dropout is on while training."""
        return any(self.variational_dropout.values())

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Build the layers for inputs [B, T, F]."""
        shape = tuple(input_shape)
        for layer in self.layers:
            layer.build(shape)
            shape = (*shape[:-1], self.output_size)
        self.dropout.build(shape)

    def call(
        self,
        inputs: tf.Tensor,
        mask: tf.Tensor | None = None,
        initial_state: StackState | None = None,
        training: bool = False,
    ) -> tuple[tf.Tensor, FinalStates]:
        """Run over whole sequences.

        Args:
            inputs: [B, T, F].
            mask: Bool [B, T], true at real steps, which come first; None if all are.
            initial_state: States [B, H] a layer; the first ones if None. One direction only.
            training: Whether dropout is on, variational dropout by fresh masks too.

        Returns:
            Outputs [B, T, output_size] and the states after each row's last real step.
        """
        forward, backward = [], []
        outputs = inputs
        for index, layer in enumerate(self.layers):
            below = self.dropout(outputs, training=training) if index else outputs
            given = None if initial_state is None else list(initial_state[index])
            outputs, *flat = layer(below, mask=mask, initial_state=given, training=training)
            outputs = self._join(index, below, outputs)  # [B, T, output_size]
            size = len(flat) // (2 if self.bidirectional else 1)
            forward.append(self._state_type(*flat[:size]))
            if self.bidirectional:
                backward.append(self._state_type(*flat[size:]))
        return outputs, FinalStates(tuple(forward), tuple(backward) or None)

    def compute_mask(self, *_: Any, **__: Any) -> None:
        """No mask travels on: who reads the outputs is given one."""

    def draw_masks(self, rows: tf.Tensor) -> StackMasks:
        """Fresh masks for all steps of some rows, one a layer. One direction only."""
        return tuple(layer.draw_masks(rows) for layer in self.layers)

    def step(
        self,
        inputs: tf.Tensor,
        state: StackState,
        training: bool = False,
        masks: StackMasks | None = None,
    ) -> tuple[tf.Tensor, StackState]:
        """Run one step with the same weights. One direction only.

        Args:
            inputs: [N, F].
            state: States [N, H] a layer.
            training: Whether dropout is on.
            masks: From `draw_masks`, the same at every step; used while training.

        Returns:
            Outputs [N, H] and the states after the step.

        Raises:
            UserError: If variational dropout is on and no masks are given.
        """
        if training and self.drops and masks is None:
            raise UserError(
                "model.variational_dropout is not possible here: the model steps while it trains "
                "and would draw other masks at every step; set its shares to 0"
            )
        after = []
        outputs = inputs
        for index, layer in enumerate(self.layers):
            below = self.dropout(outputs, training=training) if index else outputs
            given = (masks[index],) if training and masks else ()
            outputs, flat = layer.step(below, state[index], *given)
            outputs = self._join(index, below, outputs)  # [N, H]
            after.append(self._state_type(*flat))
        return outputs, tuple(after)

    def first_state(self, batch: tf.Tensor) -> StackState:
        """States before the first step, [batch, H] a layer and part: zeros in most cells."""
        layers = [layer.forward_layer if self.bidirectional else layer for layer in self.layers]
        return tuple(
            self._state_type(*layer.get_initial_state(batch_size=batch)) for layer in layers
        )

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal stack."""
        return {
            **super().get_config(),
            "cell": self.cell_name,
            "units": self.units,
            "layers": len(self.layers),
            "bidirectional": self.bidirectional,
            "residual": self.residual,
            "dropout": self.dropout_rate,
            "initializer_range": self.initializer_range,
            "merge": self.merge,
            "cell_options": dict(self.cell_options),
            "variational_dropout": dict(self.variational_dropout),
        }

    @property
    def _state_type(self) -> Any:
        return CELLS[self.cell_name].state

    def _make_layer(self, index: int) -> keras.layers.Layer:
        layer = make_layer(
            self.cell_name,
            self.units,
            self.cell_options,
            self.initializer_range,
            dtype=self.dtype_policy,
            return_sequences=True,
            return_state=True,
            variational_dropout=self.variational_dropout,
            name=f"{self.cell_name}_{index}",
        )
        if not self.bidirectional:
            return layer
        return keras.layers.Bidirectional(
            layer, merge_mode=self.merge, dtype=self.dtype_policy, name=f"bidirectional_{index}"
        )

    def _join(self, index: int, below: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return outputs + below if self.residual and index else outputs


def last_states(final: FinalStates) -> tf.Tensor:
    """Hidden states [B, L] of the highest layer after its last step, of all directions."""
    directions = [final.forward] if final.backward is None else [final.forward, final.backward]
    return tf.concat([each[-1].hidden for each in directions], -1)


def _check_merge(merge: str, bidirectional: bool) -> None:
    if merge not in MERGES:
        raise UserError(f"model.encoder.merge: got '{merge}', expected one of {', '.join(MERGES)}")
    if merge != "concat" and not bidirectional:
        raise UserError(
            f"model.encoder.merge is '{merge}', but model.encoder.bidirectional is false and there "
            f"is nothing to merge; remove the key or set bidirectional to true"
        )
