"""Answering: a story and a question in, a label out."""

import dataclasses

import numpy as np
import tensorflow as tf

from models.answering import AnsweringModel, Answers
from models.separators import QUESTION
from models.stories import split_question
from models.tokenizers import TextVocabulary, with_end
from serving import signatures
from serving.services.contract import Service, Unattached, text_of, valid_text
from serving.services.texts import with_question


@dataclasses.dataclass(frozen=True)
class AnsweringOptions:
    """What is baked into an export.

    Attributes:
        max_source_length: Pieces kept of a question, and as many of its story's last ones.
    """

    max_source_length: int


class AnsweringService(Service):
    """Joining, tokenising and answering, all inside the graph.

    Line breaks in a story part its sentences.

    Args:
        model: The trained model.
        source: Vocabulary of stories and questions.
        labels: Vocabulary of answers.
        options: What is baked in.
    """

    declared = signatures.ANSWERING_SIGNATURES

    def __init__(
        self,
        model: AnsweringModel,
        source: TextVocabulary,
        labels: TextVocabulary,
        options: AnsweringOptions,
    ):
        super().__init__(model, source, labels)
        self._source = Unattached(source)
        self._labels = Unattached(labels)
        self._question_id = source.piece_id(QUESTION)
        self._options = options

    def methods(self):
        """The functions of the signatures."""
        return {
            signatures.ANSWER_QUESTION.name: self.answer,
            signatures.LOOK_UP.name: self.look_up,
        }

    def answer(self, story: tf.Tensor, question: tf.Tensor) -> dict[str, tf.Tensor]:
        """The likeliest answer to each question, string [B], and its probability."""
        found = self._answers(story, question)
        return {
            signatures.ANSWER: self._label(found),
            signatures.SCORE: found.probabilities,
        }

    def look_up(self, story: tf.Tensor, question: tf.Tensor) -> dict[str, tf.Tensor]:
        """The answer, the words or sentences of the story, and each read's attention to them."""
        found = self._answers(story, question)
        return {
            signatures.ANSWER: self._label(found),
            signatures.STORY_TOKENS: position_texts(self._source(), found.positions),
            signatures.WEIGHTS: found.weights,
        }

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """Story or question of a corpus's joined text."""
        story, separator, question = text.rpartition(QUESTION)
        value = story if name == signatures.STORY else question
        return super().warmup_value(name, value.strip() if separator else text)

    def _answers(self, story: tf.Tensor, question: tf.Tensor) -> Answers:
        joined = with_question(valid_text(story), valid_text(question))
        parts = split_question(self._source().encode(joined), self._question_id)
        longest = self._options.max_source_length
        return self._model().answer(
            with_end(parts.story[:, -longest:]).to_tensor(),
            with_end(parts.question[:, :longest]).to_tensor(),
        )

    def _label(self, answers: Answers) -> tf.Tensor:
        return text_of(self._labels(), answers.labels[:, tf.newaxis])


def position_texts(vocabulary: TextVocabulary, positions: tf.Tensor) -> tf.Tensor:
    """What stands at each position of a story, string [B, P]; "" at pads.

    Args:
        vocabulary: Of the story.
        positions: Of `models.answering.Answers`.
    """
    if positions.shape.rank == 2:
        return vocabulary.pieces(positions)
    shape = tf.shape(positions)
    rows = tf.reshape(positions, [-1, shape[2]])  # [B * P, W]
    return tf.reshape(text_of(vocabulary, rows), shape[:2])
