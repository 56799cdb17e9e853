"""The contract of every attention, and the softmax that all share."""

import abc
from typing import Any, NamedTuple

import keras
import tensorflow as tf


class AttentionMemory(NamedTuple):
    """A memory made ready to be attended to, once for all queries."""

    keys: tf.Tensor  # [B, ..., S, A], compute dtype: what queries are compared with
    values: tf.Tensor  # [B, ..., S, M], compute dtype: what is averaged
    mask: tf.Tensor  # [B, S], bool: true at real positions


class Draw(NamedTuple):
    """How the positions that queries attend to came about."""

    log_probability: tf.Tensor  # [B, Q], float32: of what was drawn; 0 where nothing was
    entropy: tf.Tensor  # [B, Q], float32: of what it was drawn from; 0 where nothing was


class Attended(NamedTuple):
    """Outcome of Q queries."""

    context: tf.Tensor  # [B, Q, M], compute dtype
    weights: tf.Tensor  # [B, Q, S], float32
    draw: Draw


class Attention(keras.layers.Layer, abc.ABC):
    """Contract of the family: (query, memory, mask) gives context and weights.

    `call` does both parts at once. Where many queries meet one memory, as in a search,
    `prepare` is called once and `attend` for each query.

    Weights are zero at padded positions, and a row without any real position gets weights and
    a context of zero, never NaN, in half precision too. The weights of a query sum to one
    unless its member says otherwise.

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

    @property
    def draws(self) -> bool:
        """Whether positions are drawn in training, so that `Draw` says something."""
        return False

    def extra_loss(
        self, draw: Draw, losses: tf.Tensor, real: tf.Tensor, later: bool = True
    ) -> tf.Tensor:
        """What a member that draws adds to the losses of words, for its gradient.

        Args:
            draw: [B, T], of the training pass that gave the losses.
            losses: Float32 [B, T], of the words.
            real: Float32 [B, T], 0 at pads, and at words how much their row counts, 1 as a rule.
            later: Whether what a query attends to has a part in the words after its own too.

        Returns:
            Float32 [], a sum over words, whose gradient counts and whose value says nothing; 0
            of a member that draws nothing.
        """
        return tf.zeros([])

    @abc.abstractmethod
    def prepare(self, memory: tf.Tensor, mask: tf.Tensor) -> AttentionMemory:
        """Compute what does not depend on the query.

        Args:
            memory: [B, S, M].
            mask: Bool [B, S], true at real positions.

        Returns:
            The memory with its keys.
        """

    @abc.abstractmethod
    def attend(
        self,
        query: tf.Tensor,
        memory: AttentionMemory,
        place: tf.Tensor | None = None,
        training: bool = False,
    ) -> Attended:
        """Attend with many queries a row.

        Args:
            query: [B, Q, D].
            memory: From `prepare`.
            place: Int32 [B, Q], how many queries of the same sequence came before each, for
                members that go by it; from 0 to Q - 1 if None.
            training: Whether what a member may draw is drawn.

        Returns:
            Context, weights, and how they were drawn.
        """

    def call(
        self,
        query: tf.Tensor,
        memory: tf.Tensor,
        mask: tf.Tensor,
        place: tf.Tensor | None = None,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """`prepare` and `attend` in one.

        Returns:
            Context [B, Q, M] in compute dtype and weights [B, Q, S] in float32.
        """
        attended = self.attend(query, self.prepare(memory, mask), place, training)
        return attended.context, attended.weights

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "query_size": self.query_size,
            "memory_size": self.memory_size,
            "initializer_range": self.initializer_range,
        }


def nothing_drawn(query: tf.Tensor) -> Draw:
    """The draw of attention [B, Q] that is certain: log probability and entropy of zero."""
    zeros = tf.zeros(tf.shape(query)[:2], tf.float32)  # [B, Q]
    return Draw(zeros, zeros)


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the last axis, over unmasked positions only.

    Args:
        scores: Float32 [..., S]; half precision may have made them infinite.
        mask: Bool, broadcastable to [..., S].

    Returns:
        Float32 [..., S]; all zero where a row is masked whole.
    """
    weights = tf.nn.softmax(masked_scores(scores, mask))  # [..., S]
    return tf.where(mask, weights, tf.zeros_like(weights))


def masked_scores(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Finite scores [..., S], lower where masked than any that is not."""
    floor = tf.constant(scores.dtype.min / 2, scores.dtype)
    # Of two infinite scores a softmax would make NaN.
    return tf.where(mask, tf.clip_by_value(scores, floor / 2, -floor / 2), floor)
