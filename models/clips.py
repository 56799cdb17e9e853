"""Clips: a network sees each frame, and a recurrent stack reads what it saw."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from models.attention.multi_head import self_attention_layers
from models.encoders import EncoderOutput
from models.recurrent import RecurrentStack
from models.vision.contract import Backbone
from models.vision.kinds import make_backbone


@keras.saving.register_keras_serializable("seqloom")
class ClipEncoder(keras.layers.Layer):
    """A frame is `relu(norm(W f))` of all its cells f side by side, since where a lip is matters.

    So many cells make long steps of what is made of them, after which no unit might be above zero
    any more; layer normalisation (Ba et al. 2016) keeps some there. Frames are then read as
    embedded words are by `models.encoders.RecurrentEncoder`. The network learns with the rest, and
    sees no pads.

    Inputs are a dict: `pixels` [B, T, S, S, 3] in 0..255, padded on the right, and `frames`
    int32 [B], how many of them are real, at least one.

    Args:
        backbone: `name` and `weights` of `models.vision.kinds.make_backbone`.
        picture_size: Side S of a frame; the network's own if None.
        embedding_size: Features E of a frame.
        cell: A key of `models.cells.kinds.CELLS`.
        units: Hidden units a direction.
        layers: Depth.
        bidirectional: Read both ways.
        residual: Add a layer's input to its output.
        dropout: On frames and between layers.
        initializer_range: Kernels of the stack start in U(-range, range).
        self_attention: `layers` of self-attention upon the stack, none by default, and their
            `heads`.
        merge: Of the two directions, of `RecurrentStack`.
        cell_options: Of `RecurrentStack`.
        variational_dropout: Of `RecurrentStack`.
    """

    def __init__(
        self,
        backbone: Mapping[str, Any],
        picture_size: int | None = None,
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
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        self.backbone: Backbone = make_backbone(**backbone, **own)
        self.picture_size = picture_size or self.backbone.picture_size
        self.frame = keras.layers.Dense(embedding_size, use_bias=False, **own, name="frame")
        self.norm = keras.layers.LayerNormalization(**own, name="norm")
        self.dropout = keras.layers.Dropout(dropout, **own, name="dropout")
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
            **own,
            name="stack",
        )
        self.self_attention = self_attention_layers(
            **{"layers": 0, "heads": 8, **(self_attention or {})},
            size=self.stack.output_size,
            dropout=dropout,
            initializer_range=initializer_range,
            **own,
        )

    @property
    def memory_size(self) -> int:
        """Features M of a frame that is attended to."""
        return self.stack.output_size

    @property
    def pretrained(self) -> list[keras.Variable]:
        """The network's variables, if they come from elsewhere."""
        return self.backbone.trainable_variables if self.backbone.weights_name else []

    def build(self, *_: Any) -> None:
        """Create all variables."""
        side = self.picture_size
        self.backbone.build((None, side, side, 3))
        grid = self.backbone(tf.zeros([1, side, side, 3]))  # [1, R, C, F]
        self.frame.build((None, grid.shape[1] * grid.shape[2] * grid.shape[3]))
        self.norm.build((None, self.frame.units))
        self.stack.build((None, None, self.frame.units))
        for layer in self.self_attention:
            layer.build()
        self.built = True

    def see(self, pixels: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Features [N, E] of frames [N, S, S, 3]."""
        grid = self.backbone(pixels, training=training)  # [N, R, C, F]
        cells = tf.reshape(grid, [tf.shape(grid)[0], self.frame.kernel.shape[0]])
        return tf.nn.relu(self.norm(self.frame(cells)))

    def call(self, clips: Mapping[str, tf.Tensor], training: bool = False) -> EncoderOutput:
        """The frames as a memory [B, T, M], and the final states."""
        pixels = clips["pixels"]  # [B, T, S, S, 3]
        # A row of pads, which teaches nothing, is one of a black frame.
        frames = tf.maximum(clips["frames"], 1)  # [B]
        mask = tf.sequence_mask(frames, tf.shape(pixels)[1])  # [B, T]
        seen = self.see(tf.boolean_mask(pixels, mask), training)  # [N, E]
        shape = tf.concat([tf.shape(mask), [self.frame.units]], 0)
        read = tf.scatter_nd(tf.cast(tf.where(mask), tf.int32), seen, shape)  # [B, T, E]
        read = self.dropout(read, training=training)
        memory, final_states = self.stack(read, mask=mask, training=training)  # [B, T, M]
        for layer in self.self_attention:
            memory, _ = layer(memory, mask=mask, training=training)  # [B, T, M]
        return EncoderOutput(memory, mask, final_states)
