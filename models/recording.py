"""What the recurrent layers of a model read while it runs."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf


class RecordedSequence(NamedTuple):
    """What one recurrent layer read, in the order it read it."""

    layer: keras.layers.RNN
    inputs: tf.Tensor  # [T, F], compute dtype
    initial_state: Any  # as the cell takes it, [1, ...] a part


def record(model: keras.Model, inputs: Any) -> dict[str, RecordedSequence]:
    """Run a model and keep what each recurrent layer reads.

    A layer may read a whole sequence by one call or, as decoders that feed back do, step by
    step through its cell. Of a layer that reads many rows or is called again, the first row of
    the first call is kept, up to its first masked step.

    Args:
        model: Any model, built.
        inputs: Its inputs, usually of one row.

    Returns:
        The sequences by the layer's path in the model, the model's own name left out.
    """
    layers = [each for each in model._flatten_layers() if isinstance(each, keras.layers.RNN)]
    recorders = [_Recorder(layer) for layer in layers]
    with contextlib.ExitStack() as stack:
        for recorder in recorders:
            stack.enter_context(recorder.recording())
        model(inputs, training=False)
    found = {}
    for recorder in recorders:
        sequence = recorder.sequence()
        if sequence is not None:
            found[_name(recorder.layer)] = sequence
    return found


class _Recorder:
    """Stands before a layer and its cell, and lets every call through."""

    def __init__(self, layer: keras.layers.RNN):
        self.layer = layer
        self._whole: RecordedSequence | None = None
        self._steps: list[tf.Tensor] = []  # [F] each
        self._first: Any = None  # [1, ...] a part
        self._in_layer = False

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        # Keras has no hook for what a layer is called with; an attribute hides the method.
        self._call_layer, self._call_cell = self.layer.call, self.layer.cell.call
        self.layer.call, self.layer.cell.call = self._layer_called, self._cell_called
        try:
            yield
        finally:
            del self.layer.call, self.layer.cell.call

    def sequence(self) -> RecordedSequence | None:
        if self._whole is None and self._steps:
            return RecordedSequence(self.layer, tf.stack(self._steps), self._first)
        return self._whole

    def _layer_called(
        self, sequences: tf.Tensor, initial_state: Any = None, mask: Any = None, **others: Any
    ) -> Any:
        if self._whole is None and sequences.shape[0]:
            self._whole = self._first_row(sequences, initial_state, mask)
        self._in_layer = True
        try:
            return self._call_layer(sequences, initial_state=initial_state, mask=mask, **others)
        finally:
            self._in_layer = False

    def _cell_called(self, inputs: tf.Tensor, states: Any, **others: Any) -> Any:
        if not self._in_layer and inputs.shape[0]:
            if not self._steps:
                self._first = _first_rows(states)
            self._steps.append(inputs[0])
        return self._call_cell(inputs, states, **others)

    def _first_row(
        self, sequences: tf.Tensor, initial_state: Any, mask: Any
    ) -> RecordedSequence | None:
        inputs = tf.convert_to_tensor(sequences)[0]  # [T, F]
        if mask is not None:
            row = tf.nest.flatten(mask)[0][0]  # [T]
            inputs = inputs[: int(tf.reduce_sum(tf.cast(row, tf.int32)))]
        if not len(inputs):
            return None
        if self.layer.go_backwards:
            inputs = tf.reverse(inputs, [0])
        if initial_state is None:
            initial_state = self.layer.get_initial_state(batch_size=1)
        return RecordedSequence(self.layer, inputs, _first_rows(initial_state))


def _first_rows(state: Any) -> Any:
    return tf.nest.map_structure(lambda part: tf.convert_to_tensor(part)[:1], state)


def _name(layer: keras.layers.RNN) -> str:
    """The layer's path without the model's name, which is its first part."""
    return layer.path.split("/", 1)[-1]
