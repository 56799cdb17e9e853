"""Visual answering: files of pictures and questions about them in, answers out."""

import abc
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from models.search.hypotheses import SearchOptions
from models.separators import QUESTION
from models.tokenizers import TextVocabulary, with_end
from models.vision.contract import Backbone
from models.vision.decoding import decode_pictures
from models.visual_answering import VisualAnsweringModel
from models.visual_generation import VisualGenerationModel
from serving import signatures
from serving.services.contract import Outputs, Service, Unattached, text_of, valid_text
from serving.services.placing import placed_all
from serving.services.texts import in_one_line


@dataclasses.dataclass(frozen=True)
class VisualAnsweringOptions:
    """What is baked into an export.

    Attributes:
        search: Of answers that a decoder writes.
        max_pixels: Of a picture; a larger one is an error.
        max_source_length: Pieces kept of a question.
    """

    search: SearchOptions
    max_pixels: int
    max_source_length: int


class _Asked(NamedTuple):
    """Questions about the N of B pictures that could be read, or about one of row -1."""

    rows: tf.Tensor  # [N, 1], int32
    inputs: dict[str, tf.Tensor]  # of the model, [N, ...]
    problems: tf.Tensor  # [B], int32: what is wrong with each picture


class VisualService(Service, abc.ABC):
    """Decoding, tokenising and answering, all inside the graph, in either form of an answer.

    A picture that cannot be read has an error code and an empty answer; the others of its
    request have theirs.

    Args:
        model: The trained model.
        backbone: Gives features where the model has no network of its own; its network if it has.
        source: Vocabulary of questions.
        target: Vocabulary of answers.
        options: What is baked in.
    """

    def __init__(
        self,
        model: VisualAnsweringModel | VisualGenerationModel,
        backbone: Backbone,
        source: TextVocabulary,
        target: TextVocabulary,
        options: VisualAnsweringOptions,
    ):
        super().__init__(model, source, target)
        self._backbone = Unattached(backbone)
        self.backbone_weights = [weight.value for weight in backbone.weights]
        self._source = Unattached(source)
        self._target = Unattached(target)
        self._options = options

    def methods(self):
        """The functions of the signatures."""
        return {signatures.ASK_PICTURE.name: self.answer, self.declared[1].name: self.explain}

    def answer(self, image_bytes: tf.Tensor, question: tf.Tensor) -> Outputs:
        """The answer to each question, string [B], and how good it is."""
        asked = self._asked(image_bytes, question)
        return placed_all(self.found(asked.inputs), asked.rows, asked.problems)

    def explain(self, image_bytes: tf.Tensor, question: tf.Tensor) -> Outputs:
        """The answer, and where it comes from."""
        asked = self._asked(image_bytes, question)
        return placed_all(self.explained(asked.inputs), asked.rows, asked.problems)

    @abc.abstractmethod
    def found(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        """Answers [N] to questions about pictures, with their scores."""

    @abc.abstractmethod
    def explained(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        """Answers [N], with the attention that led to them."""

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """A black picture, or the question of a corpus's source."""
        if name == signatures.IMAGE_BYTES:
            size = self._backbone().picture_size
            black = tf.io.encode_png(np.zeros([size, size, 3], np.uint8))
            return np.array([black.numpy()], object)
        return super().warmup_value(name, text.rpartition(QUESTION)[2].strip())

    def _asked(self, files: tf.Tensor, question: tf.Tensor) -> _Asked:
        backbone, encoder, count = self._backbone(), self._model().encoder, tf.shape(files)[0]
        decoded = decode_pictures(files, backbone.picture_size, self._options.max_pixels)
        # Whole numbers, as records hold them.
        pixels = tf.round(decoded.pixels)  # [N, S, S, 3]
        # No question is asked about the picture of row -1.
        questions = tf.concat([in_one_line(valid_text(question)), [""]], 0)  # [B + 1]
        places = tf.where(decoded.rows < 0, count, decoded.rows)  # [N]
        ids = self._source().encode(tf.gather(questions, places))  # [N, (Q)]
        inputs = {
            "question": with_end(ids[:, : self._options.max_source_length]).to_tensor(),
            encoder.reads: backbone(pixels) if encoder.reads == "features" else pixels,
        }
        return _Asked(decoded.rows[:, tf.newaxis], inputs, decoded.problems)


class VisualAnsweringService(VisualService):
    """Answers that are labels, with a map of each look at the picture."""

    declared = signatures.VISUAL_ANSWERING_SIGNATURES

    def found(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        """The likeliest labels and their probabilities."""
        answers = self._model().answer(inputs)
        return {
            signatures.ANSWER: text_of(self._target(), answers.labels[:, tf.newaxis]),
            signatures.SCORE: answers.probabilities,
        }

    def explained(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        """The likeliest labels, and the attention of each look over the cells."""
        answers = self._model().answer(inputs)
        return {
            signatures.ANSWER: text_of(self._target(), answers.labels[:, tf.newaxis]),
            signatures.WEIGHTS: answers.weights,
        }


class VisualGenerationService(VisualService):
    """Answers that a decoder writes, with a map for each of their pieces."""

    declared = signatures.VISUAL_GENERATION_SIGNATURES

    def found(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        """The best answers and their scores."""
        found = self._model().translate(inputs, self._options.search)
        return {
            signatures.ANSWER: text_of(self._target(), found.ids[:, 0, :]),
            signatures.SCORE: found.scores[:, 0],
        }

    def explained(self, inputs: dict[str, tf.Tensor]) -> Outputs:
        """The best answers, and for each of their pieces the attention over the cells."""
        model: Any = self._model()
        ids = model.translate(inputs, self._options.search).ids[:, 0, :]  # [N, T]
        return {
            signatures.ANSWER: text_of(self._target(), ids),
            signatures.TARGET_TOKENS: self._target().pieces(ids),
            signatures.ALIGNMENT: model.look(inputs, ids),
        }
