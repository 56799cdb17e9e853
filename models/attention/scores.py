"""Scores: how queries are compared with the positions of a memory."""

import abc
from typing import Any

import keras
import tensorflow as tf

from models.errors import UserError
from models.initializers import uniform


class Score(keras.layers.Layer, abc.ABC):
    """Contract of the family: keys once a memory, then a score of every query and position.

    Args:
        query_size: Features of a query, D.
        memory_size: Features of a memory position, M.
        units: Width A of the comparison, for members that have one; `query_size` if None.
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        units: int | None = None,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.query_size = query_size
        self.memory_size = memory_size
        self.units = units or query_size
        self.initializer_range = initializer_range

    def build(self, *_: Any) -> None:
        """Create the weights; a member without any has nothing to do."""

    @abc.abstractmethod
    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """Keys [B, S, A] of a memory [B, S, M]."""

    @abc.abstractmethod
    def compare(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Scores [B, Q, S] of queries [B, Q, D] against keys [B, S, A]."""

    def call(self, query: tf.Tensor, memory: tf.Tensor) -> tf.Tensor:
        """Scores [B, Q, S] of queries [B, Q, D] and a memory [B, S, M]."""
        return self.compare(query, self.project_keys(memory))

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "query_size": self.query_size,
            "memory_size": self.memory_size,
            "units": self.units,
            "initializer_range": self.initializer_range,
        }

    def _weight(self, name: str, *shape: int) -> Any:
        return self.add_weight(shape=shape, initializer=uniform(self.initializer_range), name=name)


@keras.saving.register_keras_serializable("seqloom")
class DotScore(Score):
    """`score(s, h) = sᵀh` (Luong et al. 2015, section 3.1). Needs D = M."""

    name_in_yaml = "dot"

    def __init__(self, query_size: int, memory_size: int, *args: Any, **kwargs: Any):
        if query_size != memory_size:
            raise UserError(
                f"model.attention.score '{self.name_in_yaml}' compares decoder states of "
                f"{query_size} units with encoder states of {memory_size}; make them equal or use "
                f"'general'"
            )
        super().__init__(query_size, memory_size, *args, **kwargs)

    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """The memory itself, [B, S, M]."""
        return memory

    def compare(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Inner products, [B, Q, S]."""
        return tf.matmul(query, keys, transpose_b=True)


@keras.saving.register_keras_serializable("seqloom")
class ScaledDotScore(DotScore):
    """`score(s, h) = sᵀh / √d` (Vaswani et al. 2017, section 3.2.1). Needs D = M."""

    name_in_yaml = "scaled_dot"

    def compare(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Inner products over the root of their length, [B, Q, S]."""
        # Scaled before the product, which half precision may not hold.
        return super().compare(query * self.query_size**-0.5, keys)


@keras.saving.register_keras_serializable("seqloom")
class GeneralScore(Score):
    """`score(s, h) = sᵀWh` (Luong et al. 2015, section 3.1)."""

    def build(self, *_: Any) -> None:
        """Create W, [M, D]."""
        self.kernel = self._weight("kernel", self.memory_size, self.query_size)

    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """`Wh`, [B, S, D]."""
        return tf.matmul(memory, tf.cast(self.kernel, memory.dtype))

    def compare(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Inner products with the projected memory, [B, Q, S]."""
        return tf.matmul(query, keys, transpose_b=True)


@keras.saving.register_keras_serializable("seqloom")
class ConcatScore(Score):
    """`score(s, h) = vᵀ tanh(W[s; h])` (Luong et al. 2015, section 3.1)."""

    def build(self, *_: Any) -> None:
        """Create W [D + M, A] and v [A]."""
        self.kernel = self._weight("kernel", self.query_size + self.memory_size, self.units)
        self.vector = self._weight("vector", self.units)

    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """The memory's share of `W[s; h]`, [B, S, A]."""
        return tf.matmul(memory, tf.cast(self.kernel, memory.dtype)[self.query_size :])

    def compare(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """`vᵀ tanh(W[s; h])`, [B, Q, S]."""
        kernel = tf.cast(self.kernel, query.dtype)[: self.query_size]  # [D, A]
        return _through_tanh(tf.matmul(query, kernel), keys, tf.cast(self.vector, query.dtype))


@keras.saving.register_keras_serializable("seqloom")
class AdditiveScore(Score):
    """`score(s, h) = vᵀ tanh(Ws + Uh + b)` (Bahdanau et al. 2015, appendix A.1.2)."""

    def build(self, *_: Any) -> None:
        """Create W [D, A], U [M, A], b [A] and v [A]."""
        self.query_kernel = self._weight("query_kernel", self.query_size, self.units)
        self.memory_kernel = self._weight("memory_kernel", self.memory_size, self.units)
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")
        self.vector = self._weight("vector", self.units)

    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """`Uh + b`, [B, S, A]."""
        projected = tf.matmul(memory, tf.cast(self.memory_kernel, memory.dtype))  # [B, S, A]
        return projected + tf.cast(self.bias, memory.dtype)

    def compare(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """`vᵀ tanh(Ws + keys)`, [B, Q, S]."""
        projected = tf.matmul(query, tf.cast(self.query_kernel, query.dtype))  # [B, Q, A]
        return _through_tanh(projected, keys, tf.cast(self.vector, query.dtype))


SCORES: dict[str, type[Score]] = {
    "dot": DotScore,
    "scaled_dot": ScaledDotScore,
    "general": GeneralScore,
    "concat": ConcatScore,
    "additive": AdditiveScore,
}


def _through_tanh(queries: tf.Tensor, keys: tf.Tensor, vector: tf.Tensor) -> tf.Tensor:
    """`vᵀ tanh(q + k)`, [B, Q, S], of queries [B, Q, A], keys [B, S, A] and a vector [A]."""
    summed = queries[:, :, tf.newaxis, :] + keys[:, tf.newaxis, :, :]  # [B, Q, S, A]
    # A product of rank two, since oneDNN's batched one crashes on [B, 1, S, A] by [A, 1].
    rows = tf.reshape(tf.tanh(summed), [-1, vector.shape[0]])  # [B * Q * S, A]
    return tf.reshape(tf.matmul(rows, vector[:, tf.newaxis]), tf.shape(summed)[:3])
