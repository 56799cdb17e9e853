"""Attention over a memory of states."""

import abc
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.errors import UserError
from models.initializers import uniform


class AttentionMemory(NamedTuple):
    """A memory made ready to be attended to, once for all queries."""

    keys: tf.Tensor  # [B, S, A], compute dtype: what queries are compared with
    values: tf.Tensor  # [B, S, M], compute dtype: what is averaged
    mask: tf.Tensor  # [B, S], bool: true at real positions


class Attention(keras.layers.Layer, abc.ABC):
    """Contract of the family: (query, memory, mask) gives context and weights.

    `call` does both parts at once. Where many queries meet one memory, as in a search,
    `prepare` is called once and `attend` for each query.

    A member says how queries and keys are compared; masking, the softmax in float32 and the
    weighted mean are common. A row without any real position gets weights of zero.

    Args:
        query_size: Features of a query, D.
        memory_size: Features of a memory position, M.
        initializer_range: Kernels start in U(-range, range).
    """

    def __init__(
        self, query_size: int, memory_size: int, initializer_range: float = 0.1, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.query_size = query_size
        self.memory_size = memory_size
        self.initializer_range = initializer_range

    def build(self, *_: Any) -> None:
        """Create the weights; a member without any has nothing to do."""

    @abc.abstractmethod
    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """Keys [B, S, A] of a memory [B, S, M]."""

    @abc.abstractmethod
    def score(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Scores [B, Q, S] of queries [B, Q, D] against keys [B, S, A]."""

    def prepare(self, memory: tf.Tensor, mask: tf.Tensor) -> AttentionMemory:
        """Compute what does not depend on the query.

        Args:
            memory: [B, S, M].
            mask: Bool [B, S], true at real positions.

        Returns:
            The memory with its keys.
        """
        return AttentionMemory(self.project_keys(memory), memory, mask)

    def attend(self, query: tf.Tensor, memory: AttentionMemory) -> tuple[tf.Tensor, tf.Tensor]:
        """Attend with many queries a row.

        Args:
            query: [B, Q, D].
            memory: From `prepare`.

        Returns:
            Context [B, Q, M] in compute dtype and weights [B, Q, S] in float32. The weights of
            a query sum to one, or to zero where its row has no real position.
        """
        scores = tf.cast(self.score(query, memory.keys), tf.float32)  # [B, Q, S]
        weights = masked_softmax(scores, memory.mask[:, tf.newaxis, :])  # [B, Q, S]
        context = tf.matmul(tf.cast(weights, memory.values.dtype), memory.values)  # [B, Q, M]
        return context, weights

    def call(
        self, query: tf.Tensor, memory: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """`prepare` and `attend` in one."""
        return self.attend(query, self.prepare(memory, mask))

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "query_size": self.query_size,
            "memory_size": self.memory_size,
            "initializer_range": self.initializer_range,
        }


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the last axis, over unmasked positions only.

    Args:
        scores: Float32 [..., S].
        mask: Bool, broadcastable to [..., S].

    Returns:
        Float32 [..., S]; all zero where a row is masked whole.
    """
    floor = tf.constant(scores.dtype.min / 2, scores.dtype)
    weights = tf.nn.softmax(tf.where(mask, scores, floor))  # [..., S]
    return tf.where(mask, weights, tf.zeros_like(weights))


@keras.saving.register_keras_serializable("seqloom")
class DotAttention(Attention):
    """`score(s, h) = sᵀh` (Luong et al. 2015, section 3.1). Needs D = M."""

    def __init__(self, query_size: int, memory_size: int, **kwargs: Any):
        if query_size != memory_size:
            raise UserError(
                f"model.attention.score 'dot' compares decoder states of {query_size} units with "
                f"encoder states of {memory_size}; make them equal or use 'general'"
            )
        super().__init__(query_size, memory_size, **kwargs)

    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """The memory itself, [B, S, M]."""
        return memory

    def score(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Inner products, [B, Q, S]."""
        return tf.matmul(query, keys, transpose_b=True)


@keras.saving.register_keras_serializable("seqloom")
class GeneralAttention(Attention):
    """`score(s, h) = sᵀWh` (Luong et al. 2015, section 3.1)."""

    def build(self, *_: Any) -> None:
        """Create W, [M, D]."""
        self.kernel = self.add_weight(
            shape=(self.memory_size, self.query_size),
            initializer=uniform(self.initializer_range),
            name="kernel",
        )

    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """`Wh`, [B, S, D]."""
        return tf.matmul(memory, tf.cast(self.kernel, memory.dtype))

    def score(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Inner products with the projected memory, [B, Q, S]."""
        return tf.matmul(query, keys, transpose_b=True)


@keras.saving.register_keras_serializable("seqloom")
class AdditiveAttention(Attention):
    """`score(s, h) = vᵀ tanh(Ws + Uh + b)` (Bahdanau et al. 2015, appendix A.1.2).

    Args:
        query_size: Features of a query, D.
        memory_size: Features of a memory position, M.
        units: Width A of the comparison; `query_size` if None.
        **kwargs: Of `Attention`.
    """

    def __init__(self, query_size: int, memory_size: int, units: int | None = None, **kwargs: Any):
        super().__init__(query_size, memory_size, **kwargs)
        self.units = units or query_size

    def build(self, *_: Any) -> None:
        """Create W [D, A], U [M, A], b [A] and v [A]."""

        def weight(name: str, *shape: int) -> Any:
            return self.add_weight(
                shape=shape, initializer=uniform(self.initializer_range), name=name
            )

        self.query_kernel = weight("query_kernel", self.query_size, self.units)
        self.memory_kernel = weight("memory_kernel", self.memory_size, self.units)
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")
        self.vector = weight("vector", self.units)

    def project_keys(self, memory: tf.Tensor) -> tf.Tensor:
        """`Uh + b`, [B, S, A]."""
        projected = tf.matmul(memory, tf.cast(self.memory_kernel, memory.dtype))  # [B, S, A]
        return projected + tf.cast(self.bias, memory.dtype)

    def score(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """`vᵀ tanh(Ws + keys)`, [B, Q, S]."""
        projected = tf.matmul(query, tf.cast(self.query_kernel, query.dtype))  # [B, Q, A]
        summed = projected[:, :, tf.newaxis, :] + keys[:, tf.newaxis, :, :]  # [B, Q, S, A]
        vector = tf.cast(self.vector, query.dtype)[:, tf.newaxis]  # [A, 1]
        # A product of rank two, since oneDNN's batched one crashes on [B, 1, S, A] by [A, 1].
        scores = tf.matmul(tf.reshape(tf.tanh(summed), [-1, self.units]), vector)
        return tf.reshape(scores, tf.shape(summed)[:3])

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {**super().get_config(), "units": self.units}


ATTENTIONS: dict[str, type[Attention]] = {
    "dot": DotAttention,
    "general": GeneralAttention,
    "additive": AdditiveAttention,
}


def make_attention(score: str, units: int | None, **kwargs: Any) -> Attention:
    """Attention by name.

    Args:
        score: A key of `ATTENTIONS`.
        units: Width of the additive comparison; the other members have none and ignore it.
        **kwargs: Of `Attention`.
    """
    if score == "additive":
        kwargs["units"] = units
    return ATTENTIONS[score](**kwargs)
