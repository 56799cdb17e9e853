"""A fixed window of words: the baseline that a recurrent language model has to beat."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.errors import UserError
from models.initializers import uniform
from models.recurrent import FinalStates


class WindowState(NamedTuple):
    """What a window still sees of the words before the next one."""

    words: tf.Tensor  # [..., (n - 2) * E], compute dtype: embedded, the oldest first


WindowStackState = tuple[WindowState]  # as a recurrent stack's of one layer


@keras.saving.register_keras_serializable("seqloom")
class WindowStack(keras.layers.Layer):
    """The n-gram model of Bengio et al. 2003, section 2, up to its features.

    `x_t = [e_{t-n+2}; ...; e_t]`, features `tanh(W x_t + b)`, and more such layers upon them if
    asked for. From the features of step t the word after it is to be predicted, so that a
    probability is that of a word given the n - 1 before it. Words before the first are zero
    vectors.

    It is called as `models.recurrent.RecurrentStack` is, and stands where that stands.

    Args:
        embedding_size: Features E of an embedded word.
        units: Features H of a step's output.
        order: Words n of an n-gram, the predicted one counted; at least 2.
        layers: Depth of the network upon the window.
        dropout: Share of features dropped between layers while training.
        initializer_range: Kernels start in U(-range, range).

    Raises:
        UserError: If the order is less than 2.
    """

    def __init__(
        self,
        embedding_size: int,
        units: int = 256,
        order: int = 5,
        layers: int = 1,
        dropout: float = 0.0,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if order < 2:
            raise UserError(
                f"model.language_model.window: got {order}, expected 2 or more: the predicted word "
                f"and one before it at least"
            )
        self.embedding_size = embedding_size
        self.units = units
        self.order = order
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self.layers = [self._make_layer(index) for index in range(layers)]
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.supports_masking = True

    @property
    def output_size(self) -> int:
        """Features of a step's output."""
        return self.units

    def build(self, *_: Any) -> None:
        """Build the layers for inputs [B, T, E]."""
        size = (self.order - 1) * self.embedding_size
        for layer in self.layers:
            layer.build((None, None, size))
            size = self.units
        self.dropout.build((None, None, self.units))

    def call(
        self,
        inputs: tf.Tensor,
        mask: tf.Tensor | None = None,
        initial_state: WindowStackState | None = None,
        training: bool = False,
    ) -> tuple[tf.Tensor, FinalStates]:
        """Run over whole sequences, all steps at once.

        Args:
            inputs: [B, T, E].
            mask: Bool [B, T], true at real steps, which come first; None if all are.
            initial_state: The words before; none if None.
            training: Whether dropout is on.

        Returns:
            Outputs [B, T, H] and the state after each row's last real step.
        """
        rows, steps = tf.shape(inputs)[0], tf.shape(inputs)[1]
        (before,) = self.first_state(rows) if initial_state is None else initial_state
        seen = self.order - 2
        words = tf.reshape(before.words, [rows, seen, self.embedding_size])
        words = tf.concat([words, inputs], 1)  # [B, n - 2 + T, E]
        window = [words[:, first : first + steps] for first in range(seen + 1)]  # [B, T, E] each
        outputs = self._run(tf.concat(window, -1), training)  # [B, T, H]
        lengths = tf.fill([rows], steps)  # [B]
        if mask is not None:
            lengths = tf.reduce_sum(tf.cast(mask, tf.int32), -1)  # [B]
        last = lengths[:, tf.newaxis] + tf.range(seen)  # [B, n - 2]
        after = tf.gather(words, last, batch_dims=1)  # [B, n - 2, E]
        after = tf.reshape(after, [rows, seen * self.embedding_size])
        return outputs, FinalStates((WindowState(after),), None)

    def compute_mask(self, *_: Any, **__: Any) -> None:
        """No mask travels on: who reads the outputs is given one."""

    def step(
        self, inputs: tf.Tensor, state: WindowStackState, training: bool = False
    ) -> tuple[tf.Tensor, WindowStackState]:
        """Run one step with the same weights.

        Args:
            inputs: [N, E].
            state: The words before.
            training: Whether dropout is on.

        Returns:
            Outputs [N, H] and the state after the step.
        """
        window = tf.concat([state[0].words, inputs], -1)  # [N, (n - 1) * E]
        return self._run(window, training), (WindowState(window[:, self.embedding_size :]),)

    def first_state(self, batch: tf.Tensor) -> WindowStackState:
        """The state before the first step, zeros."""
        size = (self.order - 2) * self.embedding_size
        return (WindowState(tf.zeros([batch, size], self.compute_dtype)),)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal stack."""
        return {
            **super().get_config(),
            "embedding_size": self.embedding_size,
            "units": self.units,
            "order": self.order,
            "layers": len(self.layers),
            "dropout": self.dropout_rate,
            "initializer_range": self.initializer_range,
        }

    def _make_layer(self, index: int) -> keras.layers.Layer:
        return keras.layers.Dense(
            self.units,
            activation="tanh",
            kernel_initializer=uniform(self.initializer_range),
            dtype=self.dtype_policy,
            name=f"hidden_{index}",
        )

    def _run(self, outputs: tf.Tensor, training: bool) -> tf.Tensor:
        """The network, from windows [..., (n - 1) * E] to features [..., H]."""
        for index, layer in enumerate(self.layers):
            below = self.dropout(outputs, training=training) if index else outputs
            outputs = layer(below)
        return outputs
