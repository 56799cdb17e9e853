"""The language model: how likely a text is, and how it may go on."""

from typing import Any

import keras
import tensorflow as tf

from models.carried_state import CarriedState
from models.embedding import Embedding
from models.encoders import with_a_position
from models.errors import UserError
from models.initializers import uniform
from models.projection import VocabularyProjection
from models.recurrent import RecurrentStack
from models.scheduled_sampling import fold_in, mixed_after_the_first
from models.search.hypotheses import Hypotheses, NextWord, SearchLimits, SearchOptions
from models.search.sampling import Draws, sample
from models.sequence_model import SequenceModel
from models.special_ids import BEGIN_ID, END_ID, NO_WORDS, PAD_ID, UNKNOWN_ID
from models.window import WindowStack

# An unknown word stands in texts, but cannot be written.
_NEVER_WRITTEN = (*NO_WORDS, UNKNOWN_ID)
_UNPENALISED = SearchOptions(length_penalty=0.0)

# Inputs: ids, and with `carry` whether rows read on.
TARGET = "target"
CONTINUES = "continues"


@keras.saving.register_keras_serializable("seqloom")
class LanguageModel(SequenceModel):
    """Recurrent language model (Mikolov et al. 2010), over pieces of any size.

    `h_t = stack(e(w_{t-1}), h_{t-1})`, `p(w_t | w_<t) = softmax(W h_t + b)`.

    Inputs are a dict of int32 ids padded on the right: `target` [B, T], each row starting with
    `first_id`, and in a stream `continues` [B], 1 where a row reads on from the segment before.
    Labels [B, T] are the target one word ahead.

    Args:
        vocabulary_size: Pieces V.
        cell: A key of `models.cells.kinds.CELLS`.
        embedding_size: Features of an embedding.
        dropout: Share dropped on embeddings, between layers and on features.
        layers: Depth of the stack.
        units: Units of a layer.
        residual: Add a layer's input to its output.
        architecture: `recurrent`, or `window` for the n-gram baseline.
        window: Words n of an n-gram, the predicted one counted (window).
        tie_embeddings: Embed by the rows of the projection (Press & Wolf 2017); they have the
            features of the stack.
        stream: Whether a text is a stream of lines, each followed by the end mark, in place of
            one line begun by the begin mark.
        initializer_range: Kernels start in U(-range, range).
        cell_options: What the cell takes of `models.cells.options`.
        variational_dropout: Of `RecurrentStack`.

    Raises:
        UserError: If embeddings are tied to a projection of another width, or a window is told what
            only a recurrent stack does.
    """

    def __init__(
        self,
        vocabulary_size: int,
        cell: str = "lstm",
        embedding_size: int = 256,
        dropout: float = 0.0,
        layers: int = 1,
        units: int = 256,
        residual: bool = False,
        architecture: str = "recurrent",
        window: int = 5,
        tie_embeddings: bool = False,
        stream: bool = False,
        initializer_range: float = 0.1,
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.options: dict[str, Any] = {
            "vocabulary_size": vocabulary_size,
            "cell": cell,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "layers": layers,
            "units": units,
            "residual": residual,
            "architecture": architecture,
            "window": window,
            "tie_embeddings": tie_embeddings,
            "stream": stream,
            "initializer_range": initializer_range,
            "cell_options": dict(cell_options or {}),
            "variational_dropout": dict(variational_dropout or {}),
        }
        self.stream = stream
        self.stack = self._make_stack()
        _check_tied(self.options, self.stack.output_size)
        self.embedding = None
        if not tie_embeddings:
            self.embedding = Embedding(
                vocabulary_size,
                embedding_size,
                uniform(initializer_range),
                dtype=self.dtype_policy,
                name="embedding",
            )
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.projection = VocabularyProjection(
            vocabulary_size,
            self.stack.output_size,
            initializer_range,
            dtype=self.dtype_policy,
            name="projection",
        )
        self._carried: CarriedState | None = None

    @property
    def first_id(self) -> int:
        """What stands before the first word."""
        return first_id_of(self.stream)

    @property
    def carried(self) -> list[tf.Variable]:
        """The states that a training run carries from segment to segment."""
        return [] if self._carried is None else self._carried.of_training

    def build(self, *_: Any) -> None:
        """Create all variables."""
        if self.embedding is not None:
            self.embedding.build((None, None))
        self.stack.build((None, None, self.options["embedding_size"]))
        self.projection.build()
        self.built = True

    def carry(self, rows: int) -> None:
        """Make room for the states of parallel rows of a text; `continues` then has effect.

        Args:
            rows: Rows B of every batch of segments.
        """
        self._carried = CarriedState(self.stack.first_state(rows))

    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, T, H] of known texts; segments of a stream go on from the ones before."""
        ids = with_a_position(inputs[TARGET])  # [B, T]
        carried = self._carried if CONTINUES in inputs else None
        mask, state = tf.not_equal(ids, PAD_ID), None
        if carried is not None:
            # All rows of a segment are of one length.
            first = self.stack.first_state(tf.shape(ids)[0])
            mask, state = None, carried.before(first, inputs[CONTINUES], training)
        embedded = self.dropout(self._embed(ids), training=training)  # [B, T, E]
        outputs, after = self.stack(embedded, mask=mask, initial_state=state, training=training)
        if carried is not None:
            carried.keep(after.forward, training)
        # Keras hangs the mask on the stack's outputs, and no layer from here on wants one.
        return self.dropout(tf.identity(outputs), training=training)

    def with_own_words(
        self, inputs: dict[str, tf.Tensor], right_probability: tf.Tensor, seed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """As of `SequenceModel`: one more pass over lines, each predicted from the right words."""
        sampling = self.scheduled_sampling
        assert sampling is not None
        target = inputs[TARGET]  # [B, T]
        logits = self.projection(self.features({TARGET: target}), excluded=NO_WORDS)  # [B, T, V]
        predicted = sampling.predict(logits, fold_in(seed, 1))  # [B, T]
        mixed = mixed_after_the_first(target, predicted, right_probability, seed)
        return {**inputs, TARGET: mixed}

    def log_probabilities(self, target: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Log probability of each word of given texts.

        Args:
            target: Int32 [B, T], `first_id` first.
            labels: Int32 [B, T], one word ahead, padded.

        Returns:
            Float32 [B, T], 0 at pads; T is 1 where the texts have no column.
        """
        labels = with_a_position(labels)  # [B, T]
        logits = self.projection(self.features({TARGET: target}), excluded=NO_WORDS)  # [B, T, V]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [B, T]
        return tf.where(tf.equal(labels, PAD_ID), tf.zeros_like(losses), -losses)

    def generate(self, prompts: tf.Tensor, max_words: tf.Tensor, draws: Draws) -> Hypotheses:
        """Draw how texts go on.

        A line ends with its end mark, or without one after `max_words`. A stream has a limit
        only, and goes on through the ends of its lines.

        Args:
            prompts: Int32 [B, P], words of each text so far, padded on the right; P may be 0.
            max_words: Int32 [B], words drawn at most, the end mark counted.
            draws: How each row draws.

        Returns:
            One continuation a row; its score is its log probability.
        """
        state, last = self._after(prompts)
        return sample(
            self.next_word(),
            state,
            SearchLimits(max_words),
            draws,
            _UNPENALISED,
            last,
            None if self.stream else END_ID,
            closes=False,
        )

    def next_word(self) -> NextWord:
        """The step that searches are made of; states are the stack's."""

        def step(tokens: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
            shape = tf.shape(tokens)  # [2]: B, K
            rows = shape[0] * shape[1]

            def flat(part: tf.Tensor) -> tf.Tensor:
                return tf.reshape(part, [rows, *part.shape[2:]])  # [B * K, F]

            def unflat(part: tf.Tensor) -> tf.Tensor:
                return tf.reshape(part, tf.concat([shape, part.shape[1:]], 0))  # [B, K, F]

            embedded = self._embed(tf.reshape(tokens, [rows]))  # [B * K, E]
            outputs, after = self.stack.step(embedded, tf.nest.map_structure(flat, state))
            logits = self.projection(unflat(outputs), excluded=_NEVER_WRITTEN)  # [B, K, V]
            return logits, tf.nest.map_structure(unflat, after)

        return step

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model."""
        return {**super().get_config(), **self.options}

    def _after(self, prompts: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """The state [B, 1, ...] before the last word of each prompt, and that word [B]."""
        rows = tf.shape(prompts)[0]
        ids = tf.concat([tf.fill([rows, 1], self.first_id), prompts], 1)  # [B, P + 1]
        lengths = tf.math.count_nonzero(ids, 1, dtype=tf.int32) - 1  # [B], the last word aside
        # A row of which nothing is read yet reads one word all the same, for loops want a step.
        mask = tf.sequence_mask(tf.maximum(lengths, 1), tf.shape(ids)[1])  # [B, P + 1]
        _, after = self.stack(self._embed(ids), mask=mask)

        def chosen(read: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
            is_read = tf.reshape(lengths > 0, [-1, *[1] * (first.shape.rank - 1)])
            return tf.where(is_read, read, first)[:, tf.newaxis]  # [B, 1, ...]

        first = self.stack.first_state(rows)
        state = tf.nest.map_structure(chosen, after.forward, first)
        return state, tf.gather(ids, lengths, batch_dims=1)

    def _embed(self, ids: tf.Tensor) -> tf.Tensor:
        """Embeddings, compute dtype [..., E], of ids [...]."""
        if self.embedding is not None:
            return self.embedding(ids)
        return tf.cast(tf.gather(self.projection.kernel.value, ids), self.compute_dtype)

    def _make_stack(self) -> RecurrentStack | WindowStack:
        options = self.options
        common: dict[str, Any] = {
            "units": options["units"],
            "layers": options["layers"],
            "dropout": options["dropout"],
            "initializer_range": options["initializer_range"],
            "dtype": self.dtype_policy,
            "name": "stack",
        }
        if options["architecture"] == "window":
            _check_window(options)
            return WindowStack(options["embedding_size"], order=options["window"], **common)
        return RecurrentStack(
            options["cell"],
            residual=options["residual"],
            cell_options=options["cell_options"],
            variational_dropout=options["variational_dropout"],
            **common,
        )


def first_id_of(stream: bool) -> int:
    """What stands before a text: the begin mark, or in a stream the end of an earlier line."""
    return END_ID if stream else BEGIN_ID


def _check_window(options: dict[str, Any]) -> None:
    given = {
        "model.decoder.residual": options["residual"],
        "model.variational_dropout": any(options["variational_dropout"].values()),
    }
    for key, is_given in given.items():
        if is_given:
            raise UserError(
                f"{key} is for recurrent layers, and model.language_model.architecture is "
                f"'window'; leave the key out, or set the architecture to recurrent"
            )


def _check_tied(options: dict[str, Any], features: int) -> None:
    if options["tie_embeddings"] and options["embedding_size"] != features:
        raise UserError(
            f"model.language_model.tie_embeddings: model.embedding_size is "
            f"{options['embedding_size']}, but a word's row of the projection has {features} "
            f"features; set embedding_size to {features}, or tie_embeddings to false"
        )
