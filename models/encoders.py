"""Encoders: a source becomes a memory to attend to and states to start a decoder from."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.attention.multi_head import self_attention_layers
from models.embedding import Embedding
from models.initializers import uniform
from models.recurrent import FinalStates, RecurrentStack
from models.special_ids import PAD_ID


class EncoderOutput(NamedTuple):
    """What an encoder hands to a decoder."""

    memory: tf.Tensor  # [B, S, M], compute dtype
    mask: tf.Tensor  # [B, S], bool: true at real positions
    final_states: FinalStates  # [B, H] a layer, direction and part


@keras.saving.register_keras_serializable("seqloom")
class RecurrentEncoder(keras.layers.Layer):
    """Embedded pieces read by a recurrent stack.

    Args:
        vocabulary_size: Pieces of the source vocabulary.
        embedding_size: Features of an embedding.
        cell: A key of `models.cells.kinds.CELLS`.
        units: Hidden units a direction.
        layers: Depth.
        bidirectional: Read both ways.
        residual: Add a layer's input to its output.
        dropout: On embeddings and between layers.
        initializer_range: Kernels start in U(-range, range).
        self_attention: `layers` of self-attention upon the stack, none by default, and their
            `heads`.
        merge: Of the two directions, of `RecurrentStack`.
        cell_options: Of `RecurrentStack`.
        variational_dropout: Of `RecurrentStack`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int = 256,
        cell: str = "lstm",
        units: int = 256,
        layers: int = 1,
        bidirectional: bool = True,
        residual: bool = False,
        dropout: float = 0.0,
        initializer_range: float = 0.1,
        self_attention: dict[str, Any] | None = None,
        merge: str = "concat",
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.dropout_rate = dropout
        self.self_attention_options = {"layers": 0, "heads": 8, **(self_attention or {})}
        self.embedding = Embedding(
            vocabulary_size,
            embedding_size,
            uniform(initializer_range),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.stack = RecurrentStack(
            cell,
            units,
            layers,
            bidirectional,
            residual,
            dropout,
            initializer_range,
            merge,
            cell_options,
            variational_dropout,
            dtype=self.dtype_policy,
            name="stack",
        )
        self.self_attention = self_attention_layers(
            **self.self_attention_options,
            size=self.stack.output_size,
            dropout=dropout,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
        )

    @property
    def memory_size(self) -> int:
        """Features M of a memory position."""
        return self.stack.output_size

    def build(self, *_: Any) -> None:
        """Build for ids [B, S]."""
        self.embedding.build((None, None))
        self.stack.build((None, None, self.embedding.output_dim))
        for layer in self.self_attention:
            layer.build()

    def call(self, ids: tf.Tensor, training: bool = False) -> EncoderOutput:
        """Encode.

        Args:
            ids: Int32 [B, S], padded on the right with `PAD_ID`.
            training: Whether dropout is on.

        Returns:
            The memory and states; S is 1 where `ids` has no column.
        """
        ids = with_a_position(ids)  # [B, S]
        mask = tf.not_equal(ids, PAD_ID)  # [B, S]
        embedded = self.dropout(self.embedding(ids), training=training)  # [B, S, E]
        memory, final_states = self.stack(embedded, mask=mask, training=training)  # [B, S, M]
        for layer in self.self_attention:
            memory, _ = layer(memory, mask=mask, training=training)  # [B, S, M]
        return EncoderOutput(memory, mask, final_states)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal encoder."""
        return {
            **super().get_config(),
            "vocabulary_size": self.embedding.input_dim,
            "embedding_size": self.embedding.output_dim,
            "cell": self.stack.cell_name,
            "units": self.stack.units,
            "layers": len(self.stack.layers),
            "bidirectional": self.stack.bidirectional,
            "residual": self.stack.residual,
            "dropout": self.dropout_rate,
            "initializer_range": self.stack.initializer_range,
            "self_attention": self.self_attention_options,
            "merge": self.stack.merge,
            "cell_options": self.stack.cell_options,
            "variational_dropout": self.stack.variational_dropout,
        }


def with_a_position(ids: tf.Tensor) -> tf.Tensor:
    """Int32 [B, L] ids, with a column of pads where L is 0, as it is in a batch of no rows.

    Recurrent loops cannot run over no steps.
    """
    if ids.shape[1]:
        return ids
    missing = tf.cast(tf.equal(tf.shape(ids)[1], 0), tf.int32)
    return tf.pad(ids, [[0, 0], [0, missing]])


def with_a_step(mask: tf.Tensor) -> tf.Tensor:
    """Masks, bool [B, T], with their first step real: cuDNN fails at a row that has none."""
    return mask | tf.equal(tf.range(tf.shape(mask)[1]), 0)
