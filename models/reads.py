"""Reads: one memory attended to several times, each time with a new query."""

import functools
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.attention.contract import AttentionMemory, Draw
from models.attention.kinds import make_attention
from models.errors import UserError
from models.initializers import uniform
from models.sequence_model import Reading


class HasRead(NamedTuple):
    """Outcome of all reads of a memory."""

    query: tf.Tensor  # [B, 1, M], compute dtype: of the last read
    context: tf.Tensor  # [B, 1, M], compute dtype: what it found
    weights: tf.Tensor  # [B, K, P], float32: attention of each read; 0 at pads
    draw: Draw  # [B, K]


@keras.saving.register_keras_serializable("seqloom")
class Reads(keras.layers.Layer):
    """Several reads that follow each other, as in end-to-end memory networks.

    After each the query becomes `u' = H u + c`, and all share their weights (Sukhbaatar et al.
    2015, section 2.2, the RNN-like tying).

    Args:
        size: Features M of a query and of a position of the memory.
        hops: Reads K.
        attention: Options of `models.attention.kinds.make_attention`.
        initializer_range: Kernels start in U(-range, range).

    Raises:
        UserError: If the attention goes by the place of a word.
    """

    def __init__(
        self,
        size: int,
        hops: int,
        attention: dict[str, Any],
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if attention.get("kind") == "local_monotonic":
            raise UserError(
                "model.attention.kind 'local_monotonic' goes by a word's place in a translation, "
                "and an answer is one label; take soft, hard or local_predictive"
            )
        self.size = size
        self.hops = hops
        self.attention_options = dict(attention)
        self.initializer_range = initializer_range
        self.attention = make_attention(
            **attention,
            query_size=size,
            memory_size=size,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.update: keras.layers.Dense | None = None
        if hops > 1:  # A weight that nothing reads would have no gradient.
            self.update = keras.layers.Dense(
                size,
                use_bias=False,
                kernel_initializer=uniform(initializer_range),
                dtype=self.dtype_policy,
                name="update",
            )

    @property
    def draws(self) -> bool:
        """Whether positions are drawn in training, so that `extra_loss` says something."""
        return self.attention.draws

    def build(self, *_: Any) -> None:
        """Create the variables."""
        self.attention.build()
        if self.update:
            self.update.build((None, self.size))

    def prepare(self, memory: tf.Tensor, mask: tf.Tensor) -> AttentionMemory:
        """The memory [B, P, M] with its mask [B, P], ready to be read."""
        return self.attention.prepare(memory, mask)

    def call(self, query: tf.Tensor, memory: AttentionMemory, training: bool = False) -> HasRead:
        """Read.

        Args:
            query: [B, M], of the first read.
            memory: From `prepare`.
            training: Whether what an attention may draw is drawn.
        """
        query = query[:, tf.newaxis]  # [B, 1, M]
        weights, draws = [], []
        for hop in range(self.hops):
            place = tf.fill([1, 1], hop)  # [1, 1]
            found = self.attention.attend(query, memory, place, training)
            weights.append(found.weights)  # [B, 1, P]
            draws.append(found.draw)
            if self.update and hop + 1 < self.hops:
                query = self.update(query) + found.context  # [B, 1, M]
        drawn = Draw(*(tf.concat(parts, 1) for parts in zip(*draws, strict=True)))
        return HasRead(query, found.context, tf.concat(weights, 1), drawn)

    def reading(self, features: tf.Tensor, draw: Draw) -> Reading:
        """What a model makes of the reads, and what an attention that draws adds to its loss."""
        if not self.draws:
            return Reading(features)
        return Reading(features, functools.partial(self.extra_loss, draw))

    def extra_loss(self, draw: Draw, losses: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Of `Attention.extra_loss`, for the one answer [B, 1] that comes after the last read."""
        before = [[0, 0], [self.hops - 1, 0]]  # Every read has its part in it.
        return self.attention.extra_loss(draw, tf.pad(losses, before), tf.pad(real, before))

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "size": self.size,
            "hops": self.hops,
            "attention": self.attention_options,
            "initializer_range": self.initializer_range,
        }
