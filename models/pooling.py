"""Poolings: a sequence of states becomes one vector."""

import abc
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.attention.hierarchical import AttentionPooling
from models.encoders import with_a_step
from models.recurrent import RecurrentStack, last_states


class PooledStates(NamedTuple):
    """Sequences summed up."""

    vectors: tf.Tensor  # [B, F], compute dtype
    weights: tf.Tensor | None  # [B, S], float32: share of each position; None if it has none


class Pooling(keras.layers.Layer, abc.ABC):
    """Contract of the family: pads change nothing, and a row without a word gives zeros.

    Args:
        memory_size: Features of a position, M.
        state_size: Features of the last states of all directions together, L.
        units: Width of an attention; M if None.
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self,
        memory_size: int,
        state_size: int,
        units: int | None = None,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.memory_size = memory_size
        self.state_size = state_size
        self.units = units
        self.initializer_range = initializer_range

    @property
    def size(self) -> int:
        """Features F of the vector."""
        return self.memory_size

    def build(self, *_: Any) -> None:
        """Nothing is learned, unless a member says otherwise."""

    @abc.abstractmethod
    def call(self, states: tf.Tensor, mask: tf.Tensor, last: tf.Tensor) -> PooledStates:
        """Sum up.

        Args:
            states: [B, S, M].
            mask: Bool [B, S], true at real positions, which come first.
            last: [B, L], of `last_states`.
        """

    def compute_mask(self, *_: Any, **__: Any) -> None:
        """No mask travels on: the positions are gone."""

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "memory_size": self.memory_size,
            "state_size": self.state_size,
            "units": self.units,
            "initializer_range": self.initializer_range,
        }


@keras.saving.register_keras_serializable("seqloom")
class LastPooling(Pooling):
    """`[h→_T; h←_1]`: the last state of each direction."""

    @property
    def size(self) -> int:
        """Features of the last states."""
        return self.state_size

    def call(self, states: tf.Tensor, mask: tf.Tensor, last: tf.Tensor) -> PooledStates:
        """The last states, [B, L]."""
        return PooledStates(_or_zeros(last, mask), None)


@keras.saving.register_keras_serializable("seqloom")
class MeanPooling(Pooling):
    """`(1/T) Σ h_t`."""

    def call(self, states: tf.Tensor, mask: tf.Tensor, last: tf.Tensor) -> PooledStates:
        """The mean of the real positions, taken in float32 at least."""
        precise = states if states.dtype == tf.float64 else tf.cast(states, tf.float32)
        real = tf.cast(mask, precise.dtype)[:, :, tf.newaxis]  # [B, S, 1]
        mean = tf.reduce_sum(precise * real, 1) / tf.maximum(tf.reduce_sum(real, 1), 1.0)  # [B, M]
        return PooledStates(tf.cast(mean, states.dtype), None)


@keras.saving.register_keras_serializable("seqloom")
class MaxPooling(Pooling):
    """`max_t h_t` of each feature."""

    def call(self, states: tf.Tensor, mask: tf.Tensor, last: tf.Tensor) -> PooledStates:
        """The largest value of each feature at the real positions."""
        floor = tf.constant(states.dtype.min, states.dtype)
        largest = tf.reduce_max(tf.where(mask[:, :, tf.newaxis], states, floor), 1)  # [B, M]
        return PooledStates(_or_zeros(largest, mask), None)


@keras.saving.register_keras_serializable("seqloom")
class AttentivePooling(Pooling):
    """`Σ α_t h_t` with `AttentionPooling`, one level of Yang et al. 2016."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.attention = AttentionPooling(
            self.memory_size,
            self.units,
            self.initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )

    def build(self, *_: Any) -> None:
        """Build the attention."""
        self.attention.build()

    def call(self, states: tf.Tensor, mask: tf.Tensor, last: tf.Tensor) -> PooledStates:
        """The mean of the positions by the attention to them."""
        return PooledStates(*self.attention(states, mask))


@keras.saving.register_keras_serializable("seqloom")
class SentencePooling(keras.layers.Layer):
    """Sentence vectors read in their order, and summed up by attention.

    The upper level of the hierarchical attention network: `h_i = RNN(s_1 … s_L)`,
    `v = Σ α_i h_i` (Yang et al. 2016, section 2.2).

    Args:
        sentence_size: Features of a sentence, F.
        stack: Arguments of `RecurrentStack`.
        units: Width of the attention; as wide as a state if None.
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self,
        sentence_size: int,
        stack: dict[str, Any],
        units: int | None = None,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.sentence_size = sentence_size
        self.stack_options = dict(stack)
        self.units = units
        self.initializer_range = initializer_range
        self.stack = RecurrentStack(
            **stack, initializer_range=initializer_range, dtype=self.dtype_policy, name="stack"
        )
        size = self.stack.output_size
        self.pooling = AttentivePooling(
            size, size, units, initializer_range, dtype=self.dtype_policy, name="pooling"
        )

    @property
    def size(self) -> int:
        """Features of a text."""
        return self.pooling.size

    def build(self, *_: Any) -> None:
        """Build for sentences [B, D, F]."""
        self.stack.build((None, None, self.sentence_size))
        self.pooling.build()

    def call(
        self, sentences: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Sum up.

        Args:
            sentences: [B, D, F].
            mask: Bool [B, D], true at real sentences, which come first.
            training: Whether dropout is on.

        Returns:
            Vectors [B, M] and the sentences' weights, float32 [B, D].
        """
        read = with_a_step(mask)  # [B, D]
        states, final = self.stack(sentences, mask=read, training=training)  # [B, D, M]
        vectors, weights = self.pooling(states, mask, last_states(final))
        assert weights is not None
        return vectors, weights

    def compute_mask(self, *_: Any, **__: Any) -> None:
        """No mask travels on: the sentences are gone."""

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "sentence_size": self.sentence_size,
            "stack": self.stack_options,
            "units": self.units,
            "initializer_range": self.initializer_range,
        }


POOLINGS: dict[str, type[Pooling]] = {
    "last": LastPooling,
    "mean": MeanPooling,
    "max": MaxPooling,
    "attention": AttentivePooling,
}


def _or_zeros(vectors: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Vectors [B, F], zeros where a row of the mask [B, S] is false throughout."""
    return tf.where(tf.reduce_any(mask, 1)[:, tf.newaxis], vectors, tf.zeros_like(vectors))
