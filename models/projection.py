"""From features to the vocabulary."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.initializers import uniform

# Features [..., H] -> logits float32 [..., V].
Project = Callable[[tf.Tensor], tf.Tensor]

# Far below any logit, and finite, so that no sum of it is NaN.
_NEVER = -1e9
# From so many rows on, oneDNN copies a kernel that stands by rows before it multiplies: laid by
# columns once, it is spared that at every step. For fewer rows it does without a copy.
_MANY_ROWS = 12


@keras.saving.register_keras_serializable("seqloom")
class VocabularyProjection(keras.layers.Layer):
    """`logits = features · kernelᵀ + bias`, one row of the kernel a word.

    Rows by word are what `tf.nn.nce_loss` takes. The bias starts at -log V, or with `start_from`
    at the logarithm of known shares, so that scores are log probabilities from the first step, as
    a self-normalised loss wants.

    Args:
        vocabulary_size: Words, V.
        features_size: Features, H.
        initializer_range: The kernel starts in U(-range, range).
    """

    def __init__(
        self,
        vocabulary_size: int,
        features_size: int,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.features_size = features_size
        self.initializer_range = initializer_range

    def build(self, *_: Any) -> None:
        """Create the kernel [V, H] and the bias [V]."""
        self.kernel = self.add_weight(
            shape=(self.vocabulary_size, self.features_size),
            initializer=uniform(self.initializer_range),
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(self.vocabulary_size,),
            initializer=keras.initializers.Constant(-math.log(self.vocabulary_size)),
            autocast=False,  # it is added in float32, and half precision would round it
            name="bias",
        )

    def call(self, features: tf.Tensor, excluded: Sequence[int] = ()) -> tf.Tensor:
        """Logits.

        Args:
            features: [..., H]; the product runs in their dtype.
            excluded: Ids whose words cannot come; their logits are very low.

        Returns:
            Float32 [..., V].
        """
        kernel = tf.cast(self.kernel, features.dtype)  # [V, H]
        bias = self._bias_without(excluded)
        return self._by_rows(lambda rows: _logits(rows, kernel, bias, by_rows=True), features)

    def for_loop(self, most: tf.Tensor, excluded: Sequence[int] = ()) -> Project:
        """The same function for a loop, with what all its steps need done before it.

        Args:
            most: Int32 [], rows of features at most, all leading axes together.
            excluded: As of `call`.
        """
        kernel = tf.cast(self.kernel, self.compute_dtype)  # [V, H]
        columns = tf.cond(
            most >= _MANY_ROWS,
            lambda: tf.transpose(kernel),  # [H, V]
            lambda: tf.zeros([self.features_size, 0], kernel.dtype),
        )
        bias = self._bias_without(excluded)

        def project(rows: tf.Tensor) -> tf.Tensor:
            return tf.cond(
                tf.shape(rows)[0] >= _MANY_ROWS,
                lambda: _logits(rows, columns, bias, by_rows=False),  # [N, V]
                lambda: _logits(rows, kernel, bias, by_rows=True),  # [N, V]
            )

        return functools.partial(self._by_rows, project)

    def _bias_without(self, excluded: Sequence[int]) -> tf.Tensor:
        """The bias, float32 [V], very low at words that cannot come."""
        bias = tf.cast(self.bias, tf.float32)  # [V]
        if not excluded:
            return bias
        never = tf.reduce_any(tf.one_hot(list(excluded), self.vocabulary_size, True, False), 0)
        return tf.where(never, _NEVER, bias)

    def _by_rows(self, project: Project, features: tf.Tensor) -> tf.Tensor:
        """A projection of rows, of features with any leading axes."""
        logits = project(tf.reshape(features, [-1, self.features_size]))  # [N, V]
        shape = tf.concat([tf.shape(features)[:-1], [self.vocabulary_size]], 0)
        return tf.reshape(logits, shape)  # [..., V]

    def start_from(self, counts: np.ndarray) -> None:
        """Set the bias so that the first scores are log probabilities of the unigram distribution.

        A loss that estimates by noise words has otherwise to learn first how often each word
        comes, one drawn word at a time.

        Args:
            counts: [V], how often each word stands in the training data. A word never seen counts
                once.
        """
        seen = np.maximum(np.asarray(counts, np.float64), 1.0)  # [V]
        self.bias.assign(np.log(seen / seen.sum()))

    @property
    def rows(self) -> tf.Variable | tf.Tensor:
        """The kernel in float32, [V, H], for losses that look rows up.

        The variable itself where it can be: a lookup then reads its rows alone, and training
        that writes rows in place makes any other read copy the whole.
        """
        return _in_float32(self.kernel)

    @property
    def biases(self) -> tf.Variable | tf.Tensor:
        """The bias in float32, [V], likewise."""
        return _in_float32(self.bias)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "features_size": self.features_size,
            "initializer_range": self.initializer_range,
        }


def _logits(rows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, by_rows: bool) -> tf.Tensor:
    """Float32 [N, V] of rows [N, H] and a kernel [V, H], or [H, V] if it does not stand by rows."""
    return tf.cast(tf.matmul(rows, kernel, transpose_b=by_rows), tf.float32) + bias


def _in_float32(variable: keras.Variable) -> tf.Variable | tf.Tensor:
    return variable.value if variable.dtype == "float32" else tf.cast(variable.value, tf.float32)
