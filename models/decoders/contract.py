"""The contract of the decoders, and what all of them do."""

import abc
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.attention.contract import Attention, AttentionMemory, Draw
from models.attention.kinds import make_attention
from models.bridges import BRIDGES
from models.cells.states import StackState
from models.embedding import Embedding
from models.encoders import EncoderOutput
from models.initializers import uniform
from models.recurrent import RecurrentStack, StackMasks


class DecoderState(NamedTuple):
    """What a decoder carries from step to step; K hypotheses of each of B sentences."""

    recurrent: StackState  # [B, K, H] a layer and part, compute dtype
    attentional: tf.Tensor  # [B, K, H], or [B, K, 0] where nothing is fed back
    place: tf.Tensor  # [B, K], int32: words read before


class DecoderStep(NamedTuple):
    """Outcome of one step."""

    features: tf.Tensor  # [B, K, H], compute dtype: what the vocabulary is projected from
    weights: tf.Tensor  # [B, K, S], float32: the attention
    draw: Draw  # [B, K]: how the attention came about
    state: DecoderState


class Decoded(NamedTuple):
    """Outcome of all words of known targets."""

    features: tf.Tensor  # [B, T, H], compute dtype
    weights: tf.Tensor  # [B, T, S], float32: the attention
    draw: Draw  # [B, T]: how the attention came about


class Decoder(keras.layers.Layer, abc.ABC):
    """Contract of the family.

    `prepare` is called once a source, `step` once a word; `call` runs all words of known
    targets and gives what the steps would. The memory is never repeated over hypotheses.

    Args:
        vocabulary_size: Pieces of the target vocabulary.
        memory_size: Features M of a memory position.
        embedding_size: Features of an embedding.
        cell: A key of `models.cells.kinds.CELLS`.
        units: Hidden units.
        layers: Depth.
        residual: Add a layer's input to its output.
        dropout: On embeddings, between layers and on features.
        attention: Options of `models.attention.kinds.make_attention`.
        bridge: `name` of `models.bridges.BRIDGES` and the encoder's side of its arguments.
        initializer_range: Kernels start in U(-range, range).
        cell_options: Of `RecurrentStack`.
        variational_dropout: Of `RecurrentStack`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        memory_size: int,
        embedding_size: int = 256,
        cell: str = "lstm",
        units: int = 512,
        layers: int = 1,
        residual: bool = False,
        dropout: float = 0.0,
        attention: dict[str, Any] | None = None,
        bridge: dict[str, Any] | None = None,
        initializer_range: float = 0.1,
        cell_options: dict[str, Any] | None = None,
        variational_dropout: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.memory_size = memory_size
        self.units = units
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self.attention_options = dict(attention or {"score": "general", "units": None})
        self.bridge_options = dict(bridge or {"name": "zero"})
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
            False,
            residual,
            dropout,
            initializer_range,
            cell_options=cell_options,
            variational_dropout=variational_dropout,
            dtype=self.dtype_policy,
            name="stack",
        )
        self.attention = self._make_attention()
        self.bridge = self._make_bridge()
        self.combine = keras.layers.Dense(
            self.features_size,
            activation="tanh",
            use_bias=False,
            kernel_initializer=uniform(initializer_range),
            dtype=self.dtype_policy,
            name="combine",
        )

    @property
    def features_size(self) -> int:
        """Size of the features, that of the hidden state."""
        return self.stack.output_size

    @property
    def reads_at_once(self) -> bool:
        """Whether known targets are read without one step waiting for the features of another."""
        return not self._carries_attention

    @property
    @abc.abstractmethod
    def stack_input_size(self) -> int:
        """Features that enter the recurrent stack at a step."""

    @property
    @abc.abstractmethod
    def combined_size(self) -> int:
        """Features that a step's own are made of."""

    @abc.abstractmethod
    def advance(
        self,
        embedded: tf.Tensor,
        memory: AttentionMemory,
        state: DecoderState,
        training: bool,
        masks: StackMasks | None = None,
    ) -> DecoderStep:
        """One step from embedded words [B, K, E]."""

    def build(self, *_: Any) -> None:
        """Build all parts."""
        self.embedding.build((None, None))
        self.stack.build((None, None, self.stack_input_size))
        self.attention.build()
        self.bridge.build()
        self.combine.build((None, None, self.combined_size))

    def prepare(self, source: EncoderOutput) -> tuple[AttentionMemory, DecoderState]:
        """Make the memory ready and the first state, for one hypothesis a sentence.

        Args:
            source: Outcome of the encoder.

        Returns:
            The memory to attend to, and a state whose parts start with [B, 1].
        """
        own = self.stack.first_state(tf.shape(source.memory)[0])
        recurrent = tf.nest.map_structure(
            lambda part: part[:, tf.newaxis],  # [B, 1, H]
            self.bridge(source.final_states, own),
        )
        fed = self.features_size if self._feeds_back else 0
        shape = [tf.shape(source.memory)[0], 1, fed]
        place = tf.zeros(shape[:2], tf.int32)  # [B, 1]
        state = DecoderState(recurrent, tf.zeros(shape, self.compute_dtype), place)
        return self.attention.prepare(source.memory, source.mask), state

    def step(self, tokens: tf.Tensor, memory: AttentionMemory, state: DecoderState) -> DecoderStep:
        """Read one word of each hypothesis.

        Args:
            tokens: Int32 [B, K], the words last chosen.
            memory: From `prepare`.
            state: From `prepare` or the step before.

        Returns:
            Features [B, K, H], attention [B, K, S] and the state after the word.
        """
        return self.advance(self.embedding(tokens), memory, state, training=False)

    def call(
        self,
        tokens: tf.Tensor,
        memory: AttentionMemory,
        state: DecoderState,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Read all words of known targets (teacher forcing).

        Args:
            tokens: Int32 [B, T], begin mark first.
            memory: From `prepare`.
            state: From `prepare`.
            training: Whether dropout is on.

        Returns:
            Features [B, T, H] and attention weights [B, T, S].
        """
        decoded = self.read(tokens, memory, state, training)
        return decoded.features, decoded.weights

    def read(
        self,
        tokens: tf.Tensor,
        memory: AttentionMemory,
        state: DecoderState,
        training: bool = False,
    ) -> Decoded:
        """`call`, with how the attention came about."""
        embedded = self.dropout(self.embedding(tokens), training=training)  # [B, T, E]
        decoded = self.run(embedded, memory, state, training)
        return decoded._replace(features=self.dropout(decoded.features, training=training))

    def run(
        self, embedded: tf.Tensor, memory: AttentionMemory, state: DecoderState, training: bool
    ) -> Decoded:
        """All steps over embedded words [B, T, E], one after another.

        Members that can do better than a loop replace it.
        """
        by_step = tf.transpose(embedded, [1, 0, 2])[:, :, tf.newaxis, :]  # [T, B, 1, E]
        rows, positions = tf.shape(embedded)[0], tf.shape(memory.mask)[1]
        first = DecoderStep(
            tf.zeros([rows, 1, self.features_size], self.compute_dtype),
            tf.zeros([rows, 1, positions], tf.float32),
            Draw(*[tf.zeros([rows, 1], tf.float32)] * 2),
            state,
        )
        # Drawn here, so that all steps of a sentence have the same.
        masks = self.stack.draw_masks(rows) if training and self.stack.drops else None
        steps = tf.scan(
            lambda before, words: self.advance(words, memory, before.state, training, masks),
            by_step,
            first,
        )
        return Decoded(
            tf.transpose(steps.features[:, :, 0, :], [1, 0, 2]),  # [B, T, H]
            tf.transpose(steps.weights[:, :, 0, :], [1, 0, 2]),  # [B, T, S]
            Draw(*[tf.transpose(part[:, :, 0]) for part in steps.draw]),  # [B, T]
        )

    def extra_loss(self, draw: Draw, losses: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """`Attention.extra_loss` of the attention, as it is used here."""
        return self.attention.extra_loss(draw, losses, real, self._carries_attention)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal decoder."""
        return {
            **super().get_config(),
            "vocabulary_size": self.embedding.input_dim,
            "memory_size": self.memory_size,
            "embedding_size": self.embedding.output_dim,
            "cell": self.stack.cell_name,
            "units": self.units,
            "layers": len(self.stack.layers),
            "residual": self.stack.residual,
            "dropout": self.dropout_rate,
            "attention": self.attention_options,
            "bridge": self.bridge_options,
            "initializer_range": self.initializer_range,
            "cell_options": self.stack.cell_options,
            "variational_dropout": self.stack.variational_dropout,
        }

    @property
    def _feeds_back(self) -> bool:
        """Whether a step reads the features of the step before."""
        return False

    @property
    def _carries_attention(self) -> bool:
        """Whether the attention of a step has a part in later steps."""
        return True

    def _make_attention(self) -> Attention:
        return make_attention(
            **self.attention_options,
            query_size=self.features_size,
            memory_size=self.memory_size,
            initializer_range=self.initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )

    def _make_bridge(self) -> keras.layers.Layer:
        options = dict(self.bridge_options)
        own: dict[str, Any] = {
            "cell": self.stack.cell_name,
            "units": self.units,
            "layers": len(self.stack.layers),
            "initializer_range": self.initializer_range,
            "cell_options": self.stack.cell_options,
            "dtype": self.dtype_policy,
        }
        encoder: dict[str, Any] = {
            "encoder_units": self.memory_size,
            "encoder_layers": 1,
            "bidirectional": False,
            **options,
        }
        return BRIDGES[encoder.pop("name")](**own, **encoder, name="bridge")

    def _step_stack(
        self,
        inputs: tf.Tensor,
        state: DecoderState,
        training: bool,
        masks: StackMasks | None,
    ) -> tuple[tf.Tensor, StackState]:
        """One recurrent step of [B, K, F] inputs; hypotheses are rows to the stack."""
        shape = tf.shape(inputs)[:2]  # [B, K]

        def flat(part: tf.Tensor) -> tf.Tensor:
            return tf.reshape(part, [-1, *part.shape[2:]])  # [B * K, F]

        def unflat(part: tf.Tensor) -> tf.Tensor:
            return tf.reshape(part, tf.concat([shape, part.shape[1:]], 0))  # [B, K, F]

        before = tf.nest.map_structure(flat, state.recurrent)
        outputs, after = self.stack.step(flat(inputs), before, training, masks)
        return unflat(outputs), tf.nest.map_structure(unflat, after)
