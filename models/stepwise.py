"""Recurrent layers whose steps can be run apart, and dropout that is the same at every step."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.errors import UserError
from models.recurrence import Sequences, last_of

States = Sequence[tf.Tensor]  # [B, ...] a part, the hidden state first


class DropoutMasks(NamedTuple):
    """Masks of one run over sequences: zeros, and what makes up for them."""

    inputs: tf.Tensor | None  # [B, F], compute dtype; None where nothing is dropped
    recurrent: tf.Tensor | None  # [B, H], compute dtype; likewise


NO_MASKS = DropoutMasks(None, None)


class StepwiseLayer(keras.layers.RNN, abc.ABC):
    """Contract of our recurrent layers, mixed into Keras's.

    Variational dropout (Gal & Ghahramani 2016, section 4) is theirs: one mask a sequence on the
    inputs and one on the hidden state as the products read it, each the same at every step. The
    state itself is carried on whole, so what a GRU keeps of it is not dropped.

    Only dropout of the hidden state takes a layer off the loop that it has otherwise.

    Args:
        *args: Of the Keras layer.
        variational_dropout: Shares dropped while training, `inputs` and `recurrent`.
        **kwargs: Of the Keras layer.
    """

    def __init__(
        self, *args: Any, variational_dropout: Mapping[str, float] | None = None, **kwargs: Any
    ):
        super().__init__(*args, **kwargs)
        self.variational_dropout = {"inputs": 0.0, "recurrent": 0.0, **(variational_dropout or {})}
        if self.drops:
            self.seed_generator = keras.random.SeedGenerator()

    @property
    def drops(self) -> bool:
        """Whether masks are drawn."""
        return any(self.variational_dropout.values())

    @abc.abstractmethod
    def run(
        self,
        sequences: tf.Tensor,
        states: States,
        time_mask: tf.Tensor,
        recurrent_mask: tf.Tensor | None,
    ) -> Sequences:
        """All steps one after another.

        Args:
            sequences: [T, B, F], in the order they are read.
            states: States before the first step.
            time_mask: [T, B, 1], 1 at real steps and 0 at those that leave the state as it is.
            recurrent_mask: [B, H], by which products read the hidden state, or None.
        """

    def build(self, sequences_shape: Sequence[int | None], *others: Any) -> None:
        """Build for sequences [B, T, F]."""
        self.input_size = sequences_shape[-1]
        super().build(sequences_shape, *others)

    def call(
        self,
        sequences: tf.Tensor,
        initial_state: Any = None,
        mask: Any = None,
        training: Any = False,
    ) -> Any:
        """As of `keras.layers.RNN`."""
        masks = self.draw_masks(tf.shape(sequences)[0]) if training else NO_MASKS
        if masks.inputs is not None:
            sequences *= masks.inputs[:, tf.newaxis]  # [B, T, F]
        if masks.recurrent is None:
            return super().call(
                sequences, initial_state=initial_state, mask=mask, training=training
            )
        if initial_state is None:
            initial_state = self.get_initial_state(tf.shape(sequences)[0])
        last, outputs, states = self.run_loop(sequences, initial_state, mask, masks.recurrent)
        output = outputs if self.return_sequences else last
        return (output, *states) if self.return_state else output

    def run_loop(
        self, sequences: tf.Tensor, states: States, mask: Any, recurrent_mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """What Keras's `inner_loop` gives, by `run`: last output, outputs [B, T, H] and states."""
        states = [tf.cast(part, self.compute_dtype) for part in states]
        by_time = tf.transpose(sequences, [1, 0, 2])  # [T, B, F]
        if self.go_backwards:
            by_time = tf.reverse(by_time, [0])
        time_mask = time_mask_of(sequences, mask, self.go_backwards)
        found = self.run(by_time, states, time_mask, recurrent_mask)
        return outcome(found, time_mask if self.zero_output_for_mask else None)

    def step(
        self, inputs: tf.Tensor, states: States, masks: DropoutMasks = NO_MASKS
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """One step with the same weights.

        Args:
            inputs: [N, F].
            states: [N, ...] a part.
            masks: From `draw_masks`.

        Returns:
            Outputs [N, H] and the states after the step.
        """
        if masks.inputs is not None:
            inputs *= masks.inputs  # [N, F]
        if masks.recurrent is None:
            output, after = self.cell(inputs, list(states), training=False)
            return output, list(after)
        time_mask = tf.ones([1, tf.shape(inputs)[0], 1], inputs.dtype)  # [1, N, 1]
        found = self.run(inputs[tf.newaxis], states, time_mask, masks.recurrent)
        return found.last[0], list(found.last)

    def draw_masks(self, rows: tf.Tensor) -> DropoutMasks:
        """Fresh masks for a number of rows."""

        def draw(key: str, size: int | None) -> tf.Tensor | None:
            share = self.variational_dropout[key]
            if not share:
                return None
            ones = tf.ones([rows, size], self.compute_dtype)
            return keras.random.dropout(ones, share, seed=self.seed_generator)

        return DropoutMasks(draw("inputs", self.input_size), draw("recurrent", self.state_size[0]))

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {**super().get_config(), "variational_dropout": dict(self.variational_dropout)}


@keras.saving.register_keras_serializable("seqloom")
class CellLayer(StepwiseLayer):
    """`keras.layers.RNN` of one of our cells, with the inputs' products outside the loop.

    A cell that is not a `models.cells.cell.Cell` is run by Keras's loop.

    Args:
        cell: The cell.
        **kwargs: Of `StepwiseLayer` and `keras.layers.RNN`.
    """

    def __init__(self, cell: keras.layers.Layer, **kwargs: Any):
        super().__init__(cell, **kwargs)
        if not self._parted and self.variational_dropout["recurrent"]:
            raise UserError(
                f"model.variational_dropout.recurrent: the state of {type(cell).__name__} is not "
                f"dropped from; set it to 0"
            )

    @property
    def _parted(self) -> bool:
        return hasattr(self.cell, "input_share")

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Keras's hook for the loop; gives last output, outputs and states."""
        if not self._parted:
            return super().inner_loop(sequences, initial_state, mask, training)
        return self.run_loop(sequences, initial_state, mask, None)

    def run(
        self,
        sequences: tf.Tensor,
        states: States,
        time_mask: tf.Tensor,
        recurrent_mask: tf.Tensor | None,
    ) -> Sequences:
        """All steps one after another."""
        return self.cell.run(self.cell.input_share(sequences), states, time_mask, recurrent_mask)


def run_steps(
    advance: Callable[[tf.Tensor, tf.Tensor, States], Sequence[tf.Tensor]],
    shares: tf.Tensor,
    states: States,
    time_mask: tf.Tensor,
    recurrent_mask: tf.Tensor | None,
) -> Sequences:
    """Run `advance(share, read, states) -> states` over time.

    Args:
        advance: One step from the input's share [B, G], the hidden state as products read it
            [B, H], and the states.
        shares: [T, B, G].
        states: States before the first step.
        time_mask: [T, B, 1], 1 at real steps and 0 at those that leave the state as it is.
        recurrent_mask: [B, H], by which products read the hidden state, or None.

    Returns:
        Hidden states and last states.
    """

    def step(before: States, given: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        share, real = given
        read = before[0] if recurrent_mask is None else before[0] * recurrent_mask  # [B, H]
        after = advance(share, read, before)
        return tuple(tf.where(real > 0, new, old) for new, old in zip(after, before, strict=True))

    found = tf.scan(step, (shares, time_mask), tuple(states))
    return Sequences(
        found[0], tuple(last_of(part, old) for part, old in zip(found, states, strict=True))
    )


def over_rows(inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """The product [..., G] of inputs [..., F] and a kernel [F, G], as one of matrices."""
    rows = tf.matmul(tf.reshape(inputs, [-1, kernel.shape[0]]), kernel)  # [N, G]
    return tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [kernel.shape[1]]], 0))


def time_mask_of(sequences: tf.Tensor, mask: Any, backwards: bool) -> tf.Tensor:
    """The mask as numbers, [T, B, 1], of sequences [B, T, F], in the order they are read."""
    mask = tf.nest.flatten(mask)[0] if mask is not None else None
    if mask is None:
        shape = tf.shape(sequences)
        return tf.ones([shape[1], shape[0], 1], sequences.dtype)
    by_time = tf.cast(tf.transpose(mask), sequences.dtype)[:, :, tf.newaxis]  # [T, B, 1]
    return tf.reverse(by_time, [0]) if backwards else by_time


def outcome(
    found: Sequences, zeroing: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """What `inner_loop` gives; `keras.layers.Bidirectional` wants zeros at masked steps."""
    hidden = found.hidden if zeroing is None else found.hidden * zeroing  # [T, B, H]
    outputs = tf.transpose(hidden, [1, 0, 2])  # [B, T, H]
    return found.last[0], outputs, list(found.last)
