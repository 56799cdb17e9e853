"""The answering model: a story is read, a question asks for places in it, a label answers."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from models.attention.contract import Draw
from models.embedding import Embedding
from models.encoders import with_a_position
from models.initializers import uniform
from models.projection import VocabularyProjection
from models.reads import Reads
from models.recurrent import RecurrentStack
from models.sequence_model import Reading, SequenceModel
from models.special_ids import END_ID, MARK_IDS, PAD_ID
from models.story_encoders import STORY_ENCODERS, summary


class Answers(NamedTuple):
    """Answers to B questions."""

    labels: tf.Tensor  # [B], int32: the likeliest
    probabilities: tf.Tensor  # [B], float32: of each
    positions: tf.Tensor  # [B, P] or [B, P, W], int32: the words of each position of the story
    weights: tf.Tensor  # [B, K, P], float32: attention of each read; 0 at pads


class Looked(NamedTuple):
    """Outcome of all reads of the story."""

    features: tf.Tensor  # [B, 1, 2M], compute dtype
    weights: tf.Tensor  # [B, K, P], float32
    draw: Draw  # [B, K]


@keras.saving.register_keras_serializable("seqloom")
class Match(keras.layers.Layer):
    """Adds a vector to the embeddings of story words that stand in the question too.

    Args:
        embedding_size: Features E of an embedding.
        initializer_range: The vector starts in U(-range, range).
    """

    def __init__(self, embedding_size: int, initializer_range: float = 0.1, **kwargs: Any):
        super().__init__(**kwargs)
        self.embedding_size = embedding_size
        self.initializer_range = initializer_range

    def build(self, *_: Any) -> None:
        """Create the vector [E]."""
        self.vector = self.add_weight(
            shape=(self.embedding_size,),
            initializer=uniform(self.initializer_range),
            name="vector",
        )

    def call(self, embedded: tf.Tensor, story: tf.Tensor, question: tf.Tensor) -> tf.Tensor:
        """Mark.

        Args:
            embedded: [B, ..., E], embeddings of the story.
            story: Int32 [B, ...].
            question: Int32 [B, Q]; its pads, marks and unknown words match nothing.

        Returns:
            [B, ..., E].
        """
        shape = tf.shape(story)
        words = tf.reshape(story, [shape[0], tf.reduce_prod(shape[1:])])  # [B, N]
        asked = tf.where(question > END_ID, question, -1)  # [B, Q]
        equal = tf.equal(words[:, :, tf.newaxis], asked[:, tf.newaxis, :])  # [B, N, Q]
        matched = tf.reshape(tf.reduce_any(equal, 2), shape)[..., tf.newaxis]  # [B, ..., 1]
        return embedded + tf.cast(matched, embedded.dtype) * tf.cast(self.vector, embedded.dtype)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "embedding_size": self.embedding_size,
            "initializer_range": self.initializer_range,
        }


@keras.saving.register_keras_serializable("seqloom")
class AnsweringModel(SequenceModel):
    """Attentive reader with several reads.

    Story and question have recurrent encoders of their own over one embedding, and a softmax
    over labels reads query and context, [u; c] (the attentive reader of Hermann et al. 2015,
    section 3.2, with any attention, and without its joint tanh, which slows learning here).
    Several reads follow each other, as `models.reads.Reads` tells. Words of the story that stand
    in the question too are marked: a learned vector is added to their embedding (exact match in
    Chen et al. 2017, section 3.2), without which questions for yes or no are hardly learned.

    Inputs are a dict of int32 ids padded on the right, each row ending in the end mark: `story`
    [B, S] and `question` [B, Q]. Labels are [B, 1].

    Args:
        vocabulary_size: Pieces of stories and questions.
        label_count: Labels, marks included.
        sentence_id: Id of the separator between sentences.
        level: `word` or `sentence`: what a position of the memory is.
        hops: Reads K of the story.
        embedding_size: Features of an embedding.
        dropout: Share dropped on embeddings, between layers and on features.
        stack: Options of `models.recurrent.RecurrentStack` for all encoders, but dropout.
        self_attention: Of `models.story_encoders.StoryEncoder`.
        attention: Options of `models.attention.kinds.make_attention`.
        initializer_range: Kernels start in U(-range, range).

    Raises:
        UserError: If the attention goes by the place of a word.
    """

    def __init__(
        self,
        vocabulary_size: int,
        label_count: int,
        sentence_id: int,
        level: str = "sentence",
        hops: int = 3,
        embedding_size: int = 256,
        dropout: float = 0.0,
        stack: dict[str, Any] | None = None,
        self_attention: dict[str, Any] | None = None,
        attention: dict[str, Any] | None = None,
        initializer_range: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.options: dict[str, Any] = {
            "vocabulary_size": vocabulary_size,
            "label_count": label_count,
            "sentence_id": sentence_id,
            "level": level,
            "hops": hops,
            "embedding_size": embedding_size,
            "dropout": dropout,
            "stack": dict(stack or {}),
            "self_attention": dict(self_attention or {}),
            "attention": dict(attention or {"score": "general", "units": None}),
            "initializer_range": initializer_range,
        }
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        stack_options = {
            **self.options["stack"],
            "dropout": dropout,
            "initializer_range": initializer_range,
        }
        self.embedding = Embedding(
            vocabulary_size, embedding_size, uniform(initializer_range), **own, name="embedding"
        )
        self.match = Match(embedding_size, initializer_range, **own, name="match")
        self.dropout = keras.layers.Dropout(dropout, **own, name="dropout")
        self.story_encoder = STORY_ENCODERS[level](
            sentence_id, stack_options, self_attention, **own, name="story_encoder"
        )
        self.question_stack = RecurrentStack(**stack_options, **own, name="question_stack")
        size = self.story_encoder.memory_size
        self.reads = Reads(
            size, hops, self.options["attention"], initializer_range, **own, name="reads"
        )
        self.projection = VocabularyProjection(
            label_count, 2 * size, initializer_range, **own, name="projection"
        )

    def build(self, *_: Any) -> None:
        """Create all variables."""
        self.embedding.build((None, None))
        self.match.build()
        embedded = (None, None, self.options["embedding_size"])
        self.story_encoder.build(embedded)
        self.question_stack.build(embedded)
        self.reads.build()
        self.projection.build()
        self.built = True

    def features(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Features [B, 1, 2M] of questions."""
        return self._look(inputs, training).features

    def read(self, inputs: dict[str, tf.Tensor], training: bool = False) -> Reading:
        """`features`, and what an attention that draws adds to the loss."""
        looked = self._look(inputs, training)
        return self.reads.reading(looked.features, looked.draw)

    def answer(self, story: tf.Tensor, question: tf.Tensor) -> Answers:
        """Answer.

        Args:
            story: Int32 [B, S], each row ending in the end mark.
            question: Int32 [B, Q], likewise.
        """
        looked = self._look({"story": story, "question": question}, training=False)
        logits = self.projection(looked.features[:, 0], excluded=MARK_IDS)  # [B, V]
        return Answers(
            tf.argmax(logits, -1, output_type=tf.int32),
            tf.reduce_max(tf.nn.softmax(logits), -1),
            self.story_encoder.arrange(story),
            looked.weights,
        )

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal model."""
        return {**super().get_config(), **self.options}

    def _look(self, inputs: dict[str, tf.Tensor], training: bool) -> Looked:
        """Read the story once a hop, each time with a new query."""
        story = self.story_encoder.arrange(inputs["story"])  # [B, P] or [B, P, W]
        question = with_a_position(inputs["question"])  # [B, Q]
        embedded = self.match(self.embedding(story), story, question)  # [B, P, E] or [B, P, W, E]
        embedded = self.dropout(embedded, training=training)
        memory = self.story_encoder(story, embedded, training=training)
        query = self._query(question, training)  # [B, M]
        read = self.reads(query, self.reads.prepare(*memory), training=training)
        features = tf.concat([read.query, read.context], 2)  # [B, 1, 2M]
        return Looked(self.dropout(features, training=training), read.weights, read.draw)

    def _query(self, question: tf.Tensor, training: bool) -> tf.Tensor:
        """What a question asks for first, [B, M]."""
        embedded = self.dropout(self.embedding(question), training=training)  # [B, Q, E]
        mask = tf.not_equal(question, PAD_ID)  # [B, Q]
        _, final = self.question_stack(embedded, mask=mask, training=training)
        return summary(final, self.question_stack)
