"""The translation model: encoder, decoder with attention, projection."""

import functools
from typing import Any

import keras
import tensorflow as tf

from models.attention.contract import AttentionMemory
from models.decoders.contract import Decoded, DecoderState
from models.decoders.kinds import DECODERS
from models.encoders import EncoderOutput, RecurrentEncoder, with_a_position
from models.errors import UserError
from models.forced import ForcedOutput, score_targets
from models.projection import VocabularyProjection
from models.scheduled_sampling import fold_in, mixed_after_the_first, mixed_step_by_step
from models.search.coverage import Covered, uncovered
from models.search.hypotheses import Hypotheses, NextWord, SearchLimits, SearchOptions
from models.search.methods import search
from models.search.sampling import Draws, sample
from models.sequence_model import Reading, SequenceModel
from models.special_ids import BEGIN_ID, END_ID, NO_WORDS


@keras.saving.register_keras_serializable("seqloom")
class TranslationModel(SequenceModel):
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
        self.encoder: Any = self.encoder_type(
            source_vocabulary_size, **common, **self.options["encoder"], name="encoder"
        )
        self.decoder = self._make_decoder(target_vocabulary_size, common)
        self.projection = VocabularyProjection(
            target_vocabulary_size,
            self.decoder.features_size,
            initializer_range,
            dtype=self.dtype_policy,
            name="projection",
        )

    def build(self, *_: Any) -> None:
        """Create all variables."""
        self.encoder.build()
        self.decoder.build()
        self.projection.build()
        self.built = True

    def source_of(self, inputs: dict[str, tf.Tensor]) -> Any:
        """What the encoder reads of the inputs, as `force` and `translate` take it."""
        return inputs["source"]

    def source_lengths(self, encoded: EncoderOutput) -> tf.Tensor:
        """Pieces of each source, end mark aside, by which targets are limited, int32 [B]."""
        return tf.reduce_sum(tf.cast(encoded.mask, tf.int32), -1) - 1

    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, T, H] of known targets."""
        return self._decode(inputs, training).features

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
        memory, state = self.decoder.prepare(self.encoder(self.source_of(inputs)))
        if self.decoder.reads_at_once:
            features = self.decoder.read(target, memory, state).features  # [B, T, H]
            logits = self.projection(features, excluded=NO_WORDS)  # [B, T, V]
            predicted = sampling.predict(logits, fold_in(seed, 1))  # [B, T]
            target = mixed_after_the_first(target, predicted, right_probability, seed)
        else:
            step = self._next_word(memory)
            target = mixed_step_by_step(step, state, target, right_probability, sampling, seed)
        return {**inputs, "target": target}

    def force(self, source: tf.Tensor, target: tf.Tensor, labels: tf.Tensor) -> ForcedOutput:
        """Score given targets.

        Args:
            source: Int32 [B, S].
            target: Int32 [B, T], begin mark first.
            labels: Int32 [B, T], end mark last.

        Returns:
            Log probabilities and attention; T is 1 where the targets have no column.
        """
        target, labels = with_a_position(target), with_a_position(labels)  # [B, T]
        memory, state = self.decoder.prepare(self.encoder(source))
        decoded = self.decoder.read(target, memory, state)
        return score_targets(decoded, labels, self.projection)

    def translate(
        self, source: tf.Tensor, options: SearchOptions, prefix: tf.Tensor | None = None
    ) -> Hypotheses:
        """Find translations.

        Args:
            source: Int32 [B, S], each row ending in the end mark.
            options: Method, beam, penalties, limits and number of translations.
            prefix: Int32 [B, P], words that each translation begins with, padded; their log
                probabilities count. None if it is free.

        Returns:
            The best `options.nbest` translations of each row, best first.

        Raises:
            UserError: If that is more than the search keeps.
        """
        next_word, state, limits = self._begun(source, options)
        if prefix is not None:
            limits = limits.with_prefix(prefix)
        return search(next_word, state, limits, options, BEGIN_ID, END_ID)

    def sample(self, source: tf.Tensor, options: SearchOptions, draws: Draws) -> Hypotheses:
        """Draw translations.

        Args:
            source: Int32 [B, S], each row ending in the end mark.
            options: Limits, repeats and penalties.
            draws: How each row draws.

        Returns:
            One translation a row.
        """
        next_word, state, limits = self._begun(source, options)
        return sample(next_word, state, limits, draws, options, BEGIN_ID, END_ID)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model."""
        return {**super().get_config(), **self.options}

    def _begun(
        self, source: tf.Tensor, options: SearchOptions
    ) -> tuple[NextWord, DecoderState | Covered, SearchLimits]:
        """What a search starts from: the decoder's step, its first state, and the limits."""
        encoded = self.encoder(source)
        memory, state = self.decoder.prepare(encoded)
        limits = SearchLimits.from_source(self.source_lengths(encoded), options)
        if options.coverage_penalty:
            return self._covering_next_word(memory), uncovered(state, encoded.mask), limits
        return self._next_word(memory), state, limits

    def _next_word(self, memory: AttentionMemory) -> NextWord:
        def step(tokens: tf.Tensor, state: DecoderState) -> tuple[tf.Tensor, DecoderState]:
            outcome = self.decoder.step(tokens, memory, state)
            return self.projection(outcome.features, excluded=NO_WORDS), outcome.state  # [B, K, V]

        return step

    def _covering_next_word(self, memory: AttentionMemory) -> NextWord:
        """`_next_word`, which also sums up the attention."""

        def step(tokens: tf.Tensor, before: Covered) -> tuple[tf.Tensor, Covered]:
            outcome = self.decoder.step(tokens, memory, before.state)
            after = Covered(outcome.state, before.coverage + outcome.weights)  # [B, K, S]
            return self.projection(outcome.features, excluded=NO_WORDS), after  # [B, K, V]

        return step

    def _decode(self, inputs: dict[str, tf.Tensor], training: bool) -> Decoded:
        encoded = self.encoder(self.source_of(inputs), training=training)
        memory, state = self.decoder.prepare(encoded)
        return self.decoder.read(inputs["target"], memory, state, training=training)

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
