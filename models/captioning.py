"""The captioning model: features of a picture, decoder with attention over them, projection."""

import functools
from typing import Any, Literal

import keras
import tensorflow as tf

from models.attention.contract import AttentionMemory
from models.cells.states import SimpleState
from models.decoders.contract import Decoded, DecoderState, DecoderStep
from models.decoders.kinds import CAPTION_DECODERS
from models.encoder_decoder import Begun, EncoderDecoder
from models.encoders import EncoderOutput
from models.ensemble import EnsembleModel
from models.errors import UserError
from models.projection import VocabularyProjection
from models.recurrent import FinalStates
from models.search.hypotheses import SearchLimits, SearchOptions
from models.sequence_model import Reading
from models.vision.contract import Backbone


@keras.saving.register_keras_serializable("seqloom")
class CaptioningModel(EncoderDecoder):
    """Show, Attend and Tell (Xu et al. 2015), and decoders without attention beside it.

    The memory is the grid of a picture, its cells row after row; the decoder's first state is
    made of their mean: `s_0 = tanh(W m + b)`, a W for each part of the state (section 3.1.2).

    Inputs are a dict: `features` float32 [B, R, C, F], and `target` int32 ids [B, T], each row
    starting with the begin mark, padded on the right. Labels [B, T] are the target one word
    ahead, ending in the end mark. A model with a backbone of its own, which is trained with it,
    has `pixels` [B, S, S, 3] in 0..255 in the place of `features`. A source, as `translate` and
    `force` take it, is what `see` gives.

    Args:
        feature_size: Features F of a cell.
        vocabulary_size: Pieces of captions.
        cell: A key of `models.cells.kinds.CELLS`.
        embedding_size: Features of an embedding.
        dropout: Share dropped on embeddings, between layers and on features.
        kind: A key of `models.decoders.kinds.CAPTION_DECODERS`.
        decoder: `layers`, `units`, `residual` and `bridge` (`dense` or `zero`) of the decoder.
        attention: Options of `models.attention.kinds.make_attention`.
        stochastic_weight: λ of the doubly stochastic regulariser (section 4.2.1).
        initializer_range: Kernels start in U(-range, range).
        cell_options: What the cell takes of `models.cells.options`.
        variational_dropout: Shares dropped by one mask a sequence.
        backbone: Makes features of pixels, and learns; its normalisation goes by the statistics
            that it came with. None where features are given.

    Raises:
        UserError: If the decoder cannot start from the mean.
    """

    def __init__(
        self,
        feature_size: int,
        vocabulary_size: int,
        cell: str = "lstm",
        embedding_size: int = 256,
        dropout: float = 0.0,
        kind: str = "gated",
        decoder: dict[str, Any] | None = None,
        attention: dict[str, Any] | None = None,
        stochastic_weight: float = 1.0,
        initializer_range: float = 0.1,
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        backbone: Backbone | dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.backbone: Backbone | None = (
            keras.saving.deserialize_keras_object(backbone)
            if isinstance(backbone, dict)
            else backbone
        )
        self.options: dict[str, Any] = {
            "feature_size": feature_size,
            "vocabulary_size": vocabulary_size,
            "cell": cell,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "kind": kind,
            "decoder": dict(decoder or {}),
            "attention": dict(attention or {"score": "additive", "units": None}),
            "stochastic_weight": stochastic_weight,
            "initializer_range": initializer_range,
            "cell_options": dict(cell_options or {}),
            "variational_dropout": dict(variational_dropout or {}),
        }
        self.stochastic_weight = stochastic_weight
        decoder_options = dict(self.options["decoder"])
        bridge = decoder_options.pop("bridge", "dense")
        _check_bridge(bridge, cell)
        self.decoder = CAPTION_DECODERS[kind](
            vocabulary_size,
            feature_size,
            cell=cell,
            embedding_size=embedding_size,
            dropout=dropout,
            attention=self.options["attention"],
            bridge={"name": bridge},
            initializer_range=initializer_range,
            cell_options=self.options["cell_options"],
            variational_dropout=self.options["variational_dropout"],
            dtype=self.dtype_policy,
            **decoder_options,
            name="decoder",
        )
        self.projection = VocabularyProjection(
            vocabulary_size,
            self.decoder.features_size,
            initializer_range,
            dtype=self.dtype_policy,
            name="projection",
        )

    def build(self, *_: Any) -> None:
        """Create all variables."""
        if self.backbone is not None and not self.backbone.built:
            size = self.backbone.picture_size
            self.backbone.build((None, size, size, 3))
        self.decoder.build()
        self.projection.build()
        self.built = True

    @property
    def reads(self) -> Literal["features", "pixels"]:
        """What it reads of pictures: the name of its input."""
        return "features" if self.backbone is None else "pixels"

    @property
    def pretrained(self) -> list[keras.Variable]:
        """The backbone's."""
        return [] if self.backbone is None else self.backbone.trainable_variables

    def see(self, pictures: tf.Tensor) -> tf.Tensor:
        """Features [B, R, C, F] of pictures, which are given as it reads them."""
        return pictures if self.backbone is None else self.backbone(pictures, training=False)

    def source_of(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        """Features of the pictures."""
        return self.see(inputs[self.reads])

    def begin(self, source: tf.Tensor, training: bool = False) -> Begun:
        """Start from the mean of features, float32 [B, R, C, F]."""
        encoded = self._encode(source)
        memory, state = self.decoder.prepare(encoded)
        return Begun(memory, state, encoded.mask, tf.zeros(tf.shape(source)[:1], tf.int32))

    def step(self, tokens: tf.Tensor, memory: AttentionMemory, state: DecoderState) -> DecoderStep:
        """One of the decoder's."""
        return self.decoder.step(tokens, memory, state)

    def decode(self, target: tf.Tensor, begun: Begun, training: bool = False) -> Decoded:
        """All of the decoder's."""
        return self.decoder.read(target, begun.memory, begun.state, training=training)

    def limits(self, begun: Begun, options: SearchOptions) -> SearchLimits:
        """A picture has no words that its caption could be measured by."""
        return SearchLimits.without_source(tf.shape(begun.mask)[0], options)

    def read(self, inputs: dict[str, tf.Tensor], training: bool = False) -> Reading:
        """`features`, and what the attention adds to the loss."""
        decoded = self._decode(inputs, training)
        return Reading(decoded.features, functools.partial(self._extra_loss, decoded))

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model."""
        backbone = self.backbone and keras.saving.serialize_keras_object(self.backbone)
        return {**super().get_config(), **self.options, "backbone": backbone}

    def _encode(self, features: tf.Tensor) -> EncoderOutput:
        """The grid as a memory, and its mean in the place of an encoder's final state."""
        rows, size = tf.shape(features)[0], self.options["feature_size"]
        memory = tf.reshape(features, [rows, -1, size])  # [B, R * C, F]
        memory = tf.cast(memory, self.decoder.compute_dtype)
        mask = tf.fill(tf.shape(memory)[:2], True)  # [B, R * C]
        mean = SimpleState(tf.reduce_mean(memory, 1))  # [B, F]
        return EncoderOutput(memory, mask, FinalStates((mean,), None))

    def _extra_loss(self, decoded: Decoded, losses: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        extra = self.decoder.extra_loss(decoded.draw, losses, real)
        if self.options["kind"] != "gated" or not self.stochastic_weight:
            return extra
        return extra + self.stochastic_weight * doubly_stochastic(decoded.weights, real)


class CaptioningEnsemble(EnsembleModel):
    """Models that caption as one, by features that all of them were trained on."""

    reads: Literal["features"] = "features"

    def see(self, pictures: tf.Tensor) -> tf.Tensor:
        """The features [B, R, C, F] themselves, which each member reads."""
        return pictures


def doubly_stochastic(weights: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
    """`Σ_i (1 - Σ_t α_ti)²`, which wants every cell looked at once (Xu et al. 2015, equation 14).

    Args:
        weights: Float32 [B, T, S], the attention.
        real: Float32 [B, T], 0 at pads, and at words how much their row counts.

    Returns:
        The sum over rows, float32 [].
    """
    words = tf.cast(real > 0.0, tf.float32)  # [B, T]
    looked = tf.einsum("bts,bt->bs", weights, words)  # [B, S]
    missing = tf.reduce_sum(tf.square(1.0 - looked), 1)  # [B]
    return tf.reduce_sum(missing * tf.reduce_max(real, 1))


def _check_bridge(bridge: str, cell: str) -> None:
    if bridge == "copy":
        raise UserError(
            "model.decoder.bridge 'copy' hands over an encoder's state, and a picture has none; "
            "use 'dense' or 'zero'"
        )
    if bridge == "dense" and "projected" in cell:
        raise UserError(
            f"model.decoder.bridge 'dense' cannot start the cell '{cell}' from the mean of a "
            f"picture; use 'zero', or another cell"
        )
