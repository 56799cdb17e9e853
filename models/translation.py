"""The translation model: encoder, decoder with attention, projection."""

import functools
from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import AttentionMemory
from models.decoders.contract import Decoded, DecoderState, DecoderStep
from models.decoders.kinds import DECODERS
from models.encoder_decoder import Begun, EncoderDecoder
from models.encoders import EncoderOutput, RecurrentEncoder
from models.errors import UserError
from models.projection import VocabularyProjection
from models.scheduled_sampling import fold_in, mixed_after_the_first, mixed_step_by_step
from models.sequence_model import Reading
from models.special_ids import NO_WORDS


@keras.saving.register_keras_serializable("seqloom")
class TranslationModel(EncoderDecoder):
    """Recurrent encoder–decoder with attention (Bahdanau et al. 2015; Luong et al. 2015).

    Inputs are a dict of int32 ids padded on the right: `source` [B, S], each row ending in the
    end mark, and `target` [B, T], each row starting with the begin mark. Labels [B, T] are the
    target one word ahead, ending in the end mark.

    Args:
        source_vocabulary_size: Pieces of the source.
        target_vocabulary_size: Pieces of the target.
        cell: A key of `models.cells.kinds.CELLS`.
        embedding_size: Features of an embedding.
        dropout: Share dropped on embeddings, between layers and on features.
        encoder: `layers`, `units`, `bidirectional`, `merge`, `residual` and
            `self_attention` of the encoder.
        decoder: `kind`, `layers`, `units`, `residual`, `input_feeding`, `bridge`.
        attention: Options of `models.attention.kinds.make_attention`.
        initializer_range: Kernels start in U(-range, range).
        cell_options: What the cell takes of `models.cells.options`.
        variational_dropout: Shares dropped by one mask a sequence, `inputs` of each recurrent
            layer and its `recurrent` state.
    """

    # What reads the source; models of other sources than text have another.
    encoder_type: type[keras.layers.Layer] = RecurrentEncoder

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        cell: str = "lstm",
        embedding_size: int = 256,
        dropout: float = 0.0,
        encoder: dict[str, Any] | None = None,
        decoder: dict[str, Any] | None = None,
        attention: dict[str, Any] | None = None,
        initializer_range: float = 0.1,
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.options: dict[str, Any] = {
            "source_vocabulary_size": source_vocabulary_size,
            "target_vocabulary_size": target_vocabulary_size,
            "cell": cell,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "encoder": dict(encoder or {}),
            "decoder": dict(decoder or {}),
            "attention": dict(attention or {"score": "general", "units": None}),
            "initializer_range": initializer_range,
            "cell_options": dict(cell_options or {}),
            "variational_dropout": dict(variational_dropout or {}),
        }
        common: dict[str, Any] = {
            "cell": cell,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "initializer_range": initializer_range,
            "cell_options": self.options["cell_options"],
            "variational_dropout": self.options["variational_dropout"],
            "dtype": self.dtype_policy,
        }
        self.encoder: Any = self.make_encoder(source_vocabulary_size, common)
        self.decoder = self._make_decoder(target_vocabulary_size, common)
        self.projection = VocabularyProjection(
            target_vocabulary_size,
            self.decoder.features_size,
            initializer_range,
            dtype=self.dtype_policy,
            name="projection",
        )

    def make_encoder(self, vocabulary_size: int, common: dict[str, Any]) -> keras.layers.Layer:
        """What reads the source, given the options that encoder and decoder have in common."""
        return self.encoder_type(
            vocabulary_size, **common, **self.options["encoder"], name="encoder"
        )

    def build(self, *_: Any) -> None:
        """Create all variables."""
        self.encoder.build()
        self.decoder.build()
        self.projection.build()
        self.built = True

    def source_of(self, inputs: dict[str, tf.Tensor]) -> Any:
        """What the encoder reads of the inputs."""
        return inputs["source"]

    def source_lengths(self, encoded: EncoderOutput) -> tf.Tensor:
        """Pieces of each source, end mark aside, by which targets are limited, int32 [B]."""
        return tf.reduce_sum(tf.cast(encoded.mask, tf.int32), -1) - 1

    def begin(self, source: Any, training: bool = False) -> Begun:
        """Encode sources; the decoder starts from the encoder's final state."""
        encoded = self.encoder(source, training=training)
        memory, state = self.decoder.prepare(encoded)
        return Begun(memory, state, encoded.mask, self.source_lengths(encoded))

    def step(self, tokens: tf.Tensor, memory: AttentionMemory, state: DecoderState) -> DecoderStep:
        """One of the decoder's."""
        return self.decoder.step(tokens, memory, state)

    def decode(self, target: tf.Tensor, begun: Begun, training: bool = False) -> Decoded:
        """All of the decoder's."""
        return self.decoder.read(target, begun.memory, begun.state, training=training)

    def read(self, inputs: dict[str, tf.Tensor], training: bool = False) -> Reading:
        """`features`, and what an attention that draws adds to the loss."""
        decoded = self._decode(inputs, training)
        if not self.decoder.attention.draws:
            return Reading(decoded.features)
        extra_loss = functools.partial(self.decoder.extra_loss, decoded.draw)
        return Reading(decoded.features, extra_loss)

    def with_own_words(
        self, inputs: dict[str, tf.Tensor], right_probability: tf.Tensor, seed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """As of `SequenceModel`: one more pass, or one step after another.

        A decoder that reads known targets at once predicts all words from the right ones; one
        that steps predicts each from the mixed ones before it.
        """
        sampling = self.scheduled_sampling
        assert sampling is not None
        target = inputs["target"]  # [B, T]
        begun = self.begin(self.source_of(inputs))
        if self.decoder.reads_at_once:
            features = self.decode(target, begun).features  # [B, T, H]
            logits = self.projection(features, excluded=NO_WORDS)  # [B, T, V]
            predicted = sampling.predict(logits, fold_in(seed, 1))  # [B, T]
            target = mixed_after_the_first(target, predicted, right_probability, seed)
        else:
            step, state = self.next_word(begun), begun.state
            target = mixed_step_by_step(step, state, target, right_probability, sampling, seed)
        return {**inputs, "target": target}

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model."""
        return {**super().get_config(), **self.options}

    def _make_decoder(self, vocabulary_size: int, common: dict[str, Any]):
        options = dict(self.options["decoder"])
        kind = options.pop("kind", "luong")
        if kind != "luong" and options.pop("input_feeding", False):
            raise UserError(
                f"model.decoder.input_feeding belongs to the kind 'luong'; the kind '{kind}' "
                f"already feeds the attention of a step into it. Remove one of the two"
            )
        stack = self.encoder.stack
        options["bridge"] = {
            "name": options.pop("bridge", "dense"),
            "encoder_units": stack.units,
            "encoder_layers": len(stack.layers),
            "bidirectional": stack.bidirectional,
        }
        return DECODERS[kind](
            vocabulary_size,
            self.encoder.memory_size,
            attention=self.options["attention"],
            **common,
            **options,
            name="decoder",
        )
