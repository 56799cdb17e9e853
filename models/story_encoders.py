"""Story encoders: what an answer is looked up in, a position a word or a position a sentence."""

import abc
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.attention.multi_head import self_attention_layers
from models.encoders import with_a_position, with_a_step
from models.recurrent import FinalStates, RecurrentStack
from models.special_ids import PAD_ID
from models.stories import split_sentences


class StoryMemory(NamedTuple):
    """A story as it is attended to."""

    states: tf.Tensor  # [B, P, M], compute dtype
    mask: tf.Tensor  # [B, P], bool: true at real positions


class StoryEncoder(keras.layers.Layer, abc.ABC):
    """Contract of the family: embedded words of stories to a memory.

    Args:
        sentence_id: Id of the separator between sentences.
        stack: Options of `models.recurrent.RecurrentStack`.
        self_attention: `layers` of self-attention over the positions, none by default, and
            their `heads`.
    """

    def __init__(
        self,
        sentence_id: int,
        stack: dict[str, Any],
        self_attention: dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.sentence_id = sentence_id
        self.stack_options = dict(stack)
        self.self_attention_options = {"layers": 0, "heads": 8, **(self_attention or {})}
        self.stack = self._make_stack("stack")
        self.self_attention = self_attention_layers(
            **self.self_attention_options,
            size=self.stack.output_size,
            dropout=self.stack.dropout_rate,
            initializer_range=self.stack.initializer_range,
            dtype=self.dtype_policy,
        )

    @property
    def memory_size(self) -> int:
        """Features M of a position."""
        return self.stack.output_size

    @abc.abstractmethod
    def arrange(self, ids: tf.Tensor) -> tf.Tensor:
        """The words of each position.

        Args:
            ids: Int32 [B, S], padded on the right, each row ending in the end mark.

        Returns:
            Int32 [B, P], or [B, P, W] where a position has more than one; P and W are at least
            1.
        """

    @abc.abstractmethod
    def read(self, ids: tf.Tensor, embedded: tf.Tensor, training: bool) -> StoryMemory:
        """The memory, before self-attention; arguments are those of `call`."""

    def call(self, ids: tf.Tensor, embedded: tf.Tensor, training: bool = False) -> StoryMemory:
        """Encode.

        Args:
            ids: From `arrange`.
            embedded: The embedding [..., E] of each of them.
            training: Whether dropout is on.

        Returns:
            The memory.
        """
        memory, mask = self.read(ids, embedded, training)  # [B, P, M], [B, P]
        for layer in self.self_attention:
            memory, _ = layer(memory, mask=mask, training=training)  # [B, P, M]
        return StoryMemory(memory, mask)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal encoder."""
        return {
            **super().get_config(),
            "sentence_id": self.sentence_id,
            "stack": self.stack_options,
            "self_attention": self.self_attention_options,
        }

    def _make_stack(self, name: str) -> RecurrentStack:
        return RecurrentStack(**self.stack_options, dtype=self.dtype_policy, name=name)

    def _build_self_attention(self) -> None:
        for layer in self.self_attention:
            layer.build()


@keras.saving.register_keras_serializable("seqloom")
class WordStoryEncoder(StoryEncoder):
    """A position a word: the outputs of one recurrent stack over the whole story.

    Separators and the end mark are positions too. It is the document encoder of the attentive
    reader (Hermann et al. 2015, section 3.2).
    """

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Build for embeddings [..., E]."""
        self.stack.build((None, None, input_shape[-1]))
        self._build_self_attention()

    def arrange(self, ids: tf.Tensor) -> tf.Tensor:
        """The ids, [B, S]."""
        return with_a_position(ids)

    def read(self, ids: tf.Tensor, embedded: tf.Tensor, training: bool) -> StoryMemory:
        """Outputs at all words, [B, S, M]."""
        mask = tf.not_equal(ids, PAD_ID)  # [B, S]
        outputs, _ = self.stack(embedded, mask=mask, training=training)  # [B, S, M]
        return StoryMemory(outputs, mask)


@keras.saving.register_keras_serializable("seqloom")
class SentenceStoryEncoder(StoryEncoder):
    """A position a sentence: its words read by one stack, the sentences in order by another.

    What is kept of a sentence is the final state, or the final states of both directions. The
    second stack gives positions their place in time, which memory networks without recurrence
    add as an embedding (Sukhbaatar et al. 2015, section 4.1); the sentence's own state is added
    to its output, so that what was read is not diluted by what happened around it.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.word_stack = self._make_stack("word_stack")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Build for embeddings [..., E]."""
        self.word_stack.build((None, None, input_shape[-1]))
        self.stack.build((None, None, self.word_stack.output_size))
        self._build_self_attention()

    def arrange(self, ids: tf.Tensor) -> tf.Tensor:
        """The words of each sentence, [B, N, W]; of an empty story one sentence of a pad."""
        return split_sentences(ids, self.sentence_id)

    def read(self, ids: tf.Tensor, embedded: tf.Tensor, training: bool) -> StoryMemory:
        """States of all sentences, [B, N, M]."""
        real = tf.not_equal(ids, PAD_ID)  # [B, N, W]
        mask = real[:, :, 0]  # [B, N]
        shape = tf.shape(ids)
        words = tf.reshape(embedded, [shape[0] * shape[1], shape[2], embedded.shape[-1]])
        word_mask = with_a_step(tf.reshape(real, [shape[0] * shape[1], shape[2]]))  # [B * N, W]
        _, final = self.word_stack(words, mask=word_mask, training=training)
        sentences = summary(final, self.word_stack)  # [B * N, M]
        sentences = tf.reshape(sentences, [shape[0], shape[1], self.memory_size])  # [B, N, M]
        outputs, _ = self.stack(sentences, mask=with_a_step(mask), training=training)  # [B, N, M]
        return StoryMemory(outputs + sentences, mask)


STORY_ENCODERS: dict[str, type[StoryEncoder]] = {
    "word": WordStoryEncoder,
    "sentence": SentenceStoryEncoder,
}


def summary(final: FinalStates, stack: RecurrentStack) -> tf.Tensor:
    """The final hidden states of a stack's topmost layer, joined as its outputs are, [B, M]."""
    forward = final.forward[-1].hidden  # [B, H]
    if final.backward is None:
        return forward
    backward = final.backward[-1].hidden  # [B, H]
    return tf.concat([forward, backward], 1) if stack.merge == "concat" else forward + backward
