"""Attention by a score: the base of all kinds, and the soft one."""

import abc
from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import (
    Attended,
    Attention,
    AttentionMemory,
    Draw,
    masked_softmax,
    nothing_drawn,
)
from models.attention.scores import SCORES


class ScoredAttention(Attention):
    """Attention whose weights come from one score a position.

    A member says how scores become weights; the score is any of `SCORES`.

    Args:
        query_size: Features of a query, D.
        memory_size: Features of a memory position, M.
        score: A key of `models.attention.scores.SCORES`.
        units: Width of the score, where it has one; `query_size` if None.
        initializer_range: Kernels start in U(-range, range).
        **kwargs: Of the layer.
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        score: str = "general",
        units: int | None = None,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(query_size, memory_size, initializer_range, **kwargs)
        self.score_name = score
        self.units = units
        self.score = SCORES[score](
            query_size, memory_size, units, initializer_range, dtype=self.dtype_policy, name="score"
        )

    def build(self, *_: Any) -> None:
        """Build the score."""
        self.score.build()

    @abc.abstractmethod
    def weigh(
        self,
        scores: tf.Tensor,
        query: tf.Tensor,
        mask: tf.Tensor,
        place: tf.Tensor,
        training: bool,
    ) -> tuple[tf.Tensor, Draw]:
        """Weights of scores.

        Args:
            scores: Float32 [B, Q, S].
            query: [B, Q, D].
            mask: Bool [B, S], true at real positions.
            place: Int32 [B, Q], or [1, Q] where it is the same in all rows.
            training: Whether what is drawn is drawn.

        Returns:
            Weights float32 [B, Q, S] and how they were drawn.
        """

    def prepare(self, memory: tf.Tensor, mask: tf.Tensor) -> AttentionMemory:
        """The memory [B, S, M] with the score's keys."""
        return AttentionMemory(self.score.project_keys(memory), memory, mask)

    def attend(
        self,
        query: tf.Tensor,
        memory: AttentionMemory,
        place: tf.Tensor | None = None,
        training: bool = False,
    ) -> Attended:
        """Weigh the scores of queries [B, Q, D] and average the values."""
        if place is None:
            place = tf.range(tf.shape(query)[1])[tf.newaxis, :]  # [1, Q]
        scores = tf.cast(self.score.compare(query, memory.keys), tf.float32)  # [B, Q, S]
        weights, draw = self.weigh(scores, query, memory.mask, place, training)  # [B, Q, S]
        context = tf.matmul(tf.cast(weights, memory.values.dtype), memory.values)  # [B, Q, M]
        return Attended(context, weights, draw)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {**super().get_config(), "score": self.score_name, "units": self.units}


@keras.saving.register_keras_serializable("seqloom")
class SoftAttention(ScoredAttention):
    """`α = softmax(score)` over real positions, `c = Σ α h` (Bahdanau et al. 2015)."""

    def weigh(
        self,
        scores: tf.Tensor,
        query: tf.Tensor,
        mask: tf.Tensor,
        place: tf.Tensor,
        training: bool,
    ) -> tuple[tf.Tensor, Draw]:
        """The softmax, [B, Q, S]."""
        return masked_softmax(scores, mask[:, tf.newaxis, :]), nothing_drawn(query)
