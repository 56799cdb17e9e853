"""Keras's LSTM and GRU with a faster loop on CPUs.

On a GPU, unless cuDNN is refused, and wherever a setting asks for more than the fast loop does,
they are Keras's layers in every respect; weights and configuration are Keras's always.
"""

from typing import Any

import keras
import tensorflow as tf

from models.recurrence import Sequences, gru_recurrence, lstm_recurrence

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
class LSTM(keras.layers.LSTM):
    """`keras.layers.LSTM`."""

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Keras's hook for the loop; gives last output, outputs and states."""
        if not _takes_fast_loop(self):
            return super().inner_loop(sequences, initial_state, mask, training)
        kernel, recurrent_kernel, bias = _cast(self, "kernel", "recurrent_kernel", "bias")
        hidden, memory = initial_state
        time_mask = _time_mask(sequences, mask, self.go_backwards)
        found = lstm_recurrence(
            _shares(sequences, kernel, bias, self.go_backwards),
            hidden,
            memory,
            time_mask,
            recurrent_kernel,
        )
        return _outcome(found, time_mask if self.zero_output_for_mask else None)


@keras.saving.register_keras_serializable("seqloom")
class GRU(keras.layers.GRU):
    """`keras.layers.GRU`."""

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Keras's hook for the loop; gives last output, outputs and states."""
        if not _takes_fast_loop(self) or not self.reset_after:
            return super().inner_loop(sequences, initial_state, mask, training)
        kernel, recurrent_kernel, bias = _cast(self, "kernel", "recurrent_kernel", "bias")
        time_mask = _time_mask(sequences, mask, self.go_backwards)
        found = gru_recurrence(
            _shares(sequences, kernel, bias[0], self.go_backwards),
            tf.nest.flatten(initial_state)[0],
            time_mask,
            recurrent_kernel,
            bias[1],
        )
        return _outcome(found, time_mask if self.zero_output_for_mask else None)


def refuse_cudnn(model: keras.Model) -> None:
    """Keep cuDNN's operations out of graphs traced from now on, so that they run anywhere."""
    for layer in model._flatten_layers():
        if hasattr(layer, "use_cudnn"):
            layer.use_cudnn = False


def _cast(layer: Any, *names: str) -> list[tf.Tensor]:
    return [
        tf.cast(tf.convert_to_tensor(getattr(layer.cell, name)), layer.compute_dtype)
        for name in names
    ]


def _shares(sequences: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, backwards: bool) -> tf.Tensor:
    """The input's share of the gates, [T, B, G], of sequences [B, T, F], by one product."""
    by_time = tf.transpose(sequences, [1, 0, 2])  # [T, B, F]
    shape = tf.shape(by_time)
    rows = tf.reshape(by_time, [-1, kernel.shape[0]])  # [T * B, F]
    shares = tf.matmul(rows, kernel) + bias  # [T * B, G]
    shares = tf.reshape(shares, [shape[0], shape[1], kernel.shape[1]])  # [T, B, G]
    return tf.reverse(shares, [0]) if backwards else shares


def _time_mask(sequences: tf.Tensor, mask: Any, backwards: bool) -> tf.Tensor:
    """The mask as numbers, [T, B, 1]."""
    mask = tf.nest.flatten(mask)[0] if mask is not None else None
    if mask is None:
        shape = tf.shape(sequences)
        return tf.ones([shape[1], shape[0], 1], sequences.dtype)
    by_time = tf.cast(tf.transpose(mask), sequences.dtype)[:, :, tf.newaxis]  # [T, B, 1]
    return tf.reverse(by_time, [0]) if backwards else by_time


def _outcome(
    found: Sequences, zeroing: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """What `inner_loop` gives; `keras.layers.Bidirectional` wants zeros at masked steps."""
    hidden = found.hidden if zeroing is None else found.hidden * zeroing  # [T, B, H]
    outputs = tf.transpose(hidden, [1, 0, 2])  # [B, T, H]
    return found.last[0], outputs, list(found.last)
