"""Keras's recurrent layers: LSTM and GRU with a faster loop on CPUs, all with variational dropout.

On a GPU, unless cuDNN is refused, and wherever a setting asks for more than the fast loop does,
they are Keras's layers in every respect; weights are Keras's always.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from models.cells.gru import gru_step, mixed
from models.cells.lstm import lstm_step
from models.recurrence import Sequences, gru_recurrence, lstm_recurrence
from models.stepwise import (
    States,
    StepwiseLayer,
    over_rows,
    run_steps,
)

# Off, Keras's own loop is traced everywhere; for comparing the two.
FAST_LOOP = True


def _is_plain(layer: keras.layers.LSTM | keras.layers.GRU) -> bool:
    """Whether the layer is set as cuDNN asks; then the fast loop knows it too."""
    return (
        layer.activation is keras.activations.tanh
        and layer.recurrent_activation is keras.activations.sigmoid
        and layer.use_bias
        and not layer.unroll
        and not layer.dropout
        and not layer.recurrent_dropout
    )


def _takes_fast_loop(layer: keras.layers.LSTM | keras.layers.GRU) -> bool:
    """Whether the fast loop is used: without a GPU, or where cuDNN is refused."""
    refused = layer.use_cudnn is False or not tf.config.list_logical_devices("GPU")
    return FAST_LOOP and refused and _is_plain(layer)


@keras.saving.register_keras_serializable("seqloom")
class SimpleRNN(StepwiseLayer, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN`."""

    def run(
        self,
        sequences: tf.Tensor,
        states: States,
        time_mask: tf.Tensor,
        recurrent_mask: tf.Tensor | None,
    ) -> Sequences:
        """All steps one after another."""
        kernel, recurrent_kernel, bias = _cast(self, "kernel", "recurrent_kernel", "bias")

        def advance(share: tf.Tensor, read: tf.Tensor, states: States) -> States:
            return [self.activation(share + tf.matmul(read, recurrent_kernel))]  # [B, H]

        shares = over_rows(sequences, kernel) + bias  # [T, B, H]
        return run_steps(advance, shares, states, time_mask, recurrent_mask)


@keras.saving.register_keras_serializable("seqloom")
class LSTM(StepwiseLayer, keras.layers.LSTM):
    """`keras.layers.LSTM`."""

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Keras's hook for the loop; gives last output, outputs and states."""
        if not _takes_fast_loop(self):
            return super().inner_loop(sequences, initial_state, mask, training)
        return self.run_loop(sequences, initial_state, mask, None)

    def run(
        self,
        sequences: tf.Tensor,
        states: States,
        time_mask: tf.Tensor,
        recurrent_mask: tf.Tensor | None,
    ) -> Sequences:
        """All steps one after another; by the fast loop unless the hidden state is dropped from."""
        kernel, recurrent_kernel, bias = _cast(self, "kernel", "recurrent_kernel", "bias")
        shares = over_rows(sequences, kernel) + bias  # [T, B, 4H]
        if recurrent_mask is None:
            return lstm_recurrence(shares, states[0], states[1], time_mask, recurrent_kernel)

        def advance(share: tf.Tensor, read: tf.Tensor, states: States) -> States:
            return lstm_step(share + tf.matmul(read, recurrent_kernel), states[1])

        return run_steps(advance, shares, states, time_mask, recurrent_mask)


@keras.saving.register_keras_serializable("seqloom")
class GRU(StepwiseLayer, keras.layers.GRU):
    """`keras.layers.GRU`."""

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Keras's hook for the loop; gives last output, outputs and states."""
        if not _takes_fast_loop(self) or not self.reset_after:
            return super().inner_loop(sequences, initial_state, mask, training)
        return self.run_loop(sequences, tf.nest.flatten(initial_state), mask, None)

    def run(
        self,
        sequences: tf.Tensor,
        states: States,
        time_mask: tf.Tensor,
        recurrent_mask: tf.Tensor | None,
    ) -> Sequences:
        """All steps one after another; by the fast loop unless the hidden state is dropped from."""
        kernel, recurrent_kernel, bias = _cast(self, "kernel", "recurrent_kernel", "bias")
        shares = over_rows(sequences, kernel)  # [T, B, 3H]
        if not self.reset_after:
            advance = _reset_before(recurrent_kernel)
            return run_steps(advance, shares + bias, states, time_mask, recurrent_mask)
        shares += bias[0]
        if recurrent_mask is None:
            return gru_recurrence(shares, states[0], time_mask, recurrent_kernel, bias[1])

        def advance_after(share: tf.Tensor, read: tf.Tensor, states: States) -> States:
            inner = tf.matmul(read, recurrent_kernel) + bias[1]  # [B, 3H]
            return [gru_step(share, inner, states[0])]

        return run_steps(advance_after, shares, states, time_mask, recurrent_mask)


def refuse_cudnn(model: keras.Model) -> None:
    """Keep cuDNN's operations out of graphs traced from now on, so that they run anywhere."""
    for layer in model._flatten_layers():
        if hasattr(layer, "use_cudnn"):
            layer.use_cudnn = False


def _reset_before(recurrent_kernel: tf.Tensor) -> Callable[..., States]:
    """A step of a GRU that resets before the product; gates in the order z, r, h."""
    units = recurrent_kernel.shape[0]
    of_gates, of_candidate = tf.split(recurrent_kernel, [2 * units, units], 1)

    def advance(share: tf.Tensor, read: tf.Tensor, states: States) -> States:
        update, reset, candidate = tf.split(share, 3, 1)  # [B, H]
        inner_update, inner_reset = tf.split(tf.matmul(read, of_gates), 2, 1)  # [B, H]
        reset = tf.sigmoid(reset + inner_reset)  # [B, H]
        candidate += tf.matmul(reset * read, of_candidate)  # [B, H]
        return [mixed(update + inner_update, candidate, states[0])]

    return advance


def _cast(layer: Any, *names: str) -> list[tf.Tensor]:
    return [
        tf.cast(tf.convert_to_tensor(getattr(layer.cell, name)), layer.compute_dtype)
        for name in names
    ]
