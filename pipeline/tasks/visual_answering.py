"""Visual answering: a picture and a question about it to a label, or to words."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import rich.console
import tensorflow as tf

from models.sequence_model import SequenceModel
from models.tokenizers import TextVocabulary, ragged_ids, with_begin, with_end
from models.vision.kinds import make_backbone
from models.visual_answering import VisualAnsweringModel, VisualAnswers
from models.visual_generation import VisualGenerationModel
from pipeline.assembly import search_options
from pipeline.batches import Marked, Pairs
from pipeline.label_scoring import score_labels
from pipeline.monitor.panel import ValidationSamples
from pipeline.questions import Questions
from pipeline.tasks.contract import Evaluation, Judge, Task, Validation
from serving.services.visual_answering import (
    VisualAnsweringOptions,
    VisualAnsweringService,
    VisualGenerationService,
    VisualService,
)


class VisualAnsweringTask(Task):
    """A question about a picture, by `VisualAnsweringModel` or `VisualGenerationModel`."""

    @property
    def asks(self) -> dict[str, Any]:
        """The pictures' features, or, where a network learns, the pixels, each picture once."""
        if self.experiment.data.pictures.fine_tune:
            return {"pictures": "pixels", "together": True}
        return {"pictures": "features"}

    @property
    def is_classifier(self) -> bool:
        """Whether answers are labels."""
        return self.experiment.model.visual_answering.form == "classifier"

    @property
    def source(self) -> TextVocabulary:
        """Vocabulary of questions."""
        assert self.vocabularies.source is not None
        return self.vocabularies.source

    def build_model(self) -> VisualAnsweringModel | VisualGenerationModel:
        """The model of the form that is asked for."""
        options = self.experiment.model
        sizes = self.source.size, self.vocabularies.target.size
        common: dict[str, Any] = {
            **options.of_all_networks,
            "encoder": {**options.encoder.model_dump(), **self._pictures()},
            "attention": options.attention.model_dump(),
            "name": self.experiment.export.model_name,
        }
        model: VisualAnsweringModel | VisualGenerationModel
        if self.is_classifier:
            model = VisualAnsweringModel(*sizes, hops=options.visual_answering.hops, **common)
        else:
            decoder = options.decoder.model_dump()
            model = VisualGenerationModel(*sizes, decoder=decoder, **common)
        model.build()
        return model

    def mark(
        self, source: tf.RaggedTensor, target: tf.RaggedTensor, pictures: tf.Tensor | None = None
    ) -> Marked:
        """The question, ended, its picture, and the answer as it is read and predicted."""
        assert pictures is not None
        inputs = {"question": with_end(source), self.asks["pictures"]: pictures}
        if self.is_classifier:
            # A record has one label, which fixed shapes must not pad.
            return inputs, tf.RaggedTensor.from_uniform_row_length(target.flat_values, 1)
        return {**inputs, "target": with_begin(target)}, with_end(target)

    def judge(self, model: SequenceModel) -> "VisualJudge":
        """By the share of answers that are right."""
        if isinstance(model, VisualAnsweringModel):
            return ClassifierJudge(self, model)
        assert isinstance(model, VisualGenerationModel)
        return GeneratorJudge(self, model)

    def service(self, model: SequenceModel) -> VisualService:
        """Answers about files, and where they were seen."""
        assert isinstance(model, VisualAnsweringModel | VisualGenerationModel)
        pictures = self.experiment.data.pictures
        backbone = model.encoder.backbone
        if backbone is None:
            backbone = make_backbone(pictures.backbone, pictures.weights)
            backbone.trainable = False
            backbone.build((None, backbone.picture_size, backbone.picture_size, 3))
        options = VisualAnsweringOptions(
            search_options(self.experiment),
            pictures.max_pixels,
            self.experiment.export.max_source_length,
        )
        kind = VisualAnsweringService if self.is_classifier else VisualGenerationService
        return kind(model, backbone, self.source, self.vocabularies.target, options)

    def _pictures(self) -> dict[str, Any]:
        """What the encoder is told of pictures."""
        options = self.experiment.data.pictures
        if options.fine_tune:
            return {"backbone": {"name": options.backbone, "weights": options.weights}}
        # Where features come from `prepare`, weights make no difference to their size.
        return {"feature_size": make_backbone(options.backbone).feature_size}


class VisualJudge(Judge, abc.ABC):
    """Accuracy, over all and by answer; members say how questions are answered.

    Args:
        task: The task.
        model: The model.
    """

    def __init__(
        self, task: VisualAnsweringTask, model: VisualAnsweringModel | VisualGenerationModel
    ):
        self.task = task
        self.model: Any = model
        self._size = task.experiment.search.batch_size
        self.kind = model.encoder.reads
        pictures = tf.TensorSpec([None] * 4, tf.uint8 if self.kind == "pixels" else tf.float32)
        question = tf.TensorSpec([None, None], tf.int32)
        self.run = tf.function(
            self.answers, input_signature=[{"question": question, self.kind: pictures}]
        )

    @abc.abstractmethod
    def answers(self, inputs: dict[str, tf.Tensor]) -> Any:
        """The graph function that answers questions about pictures."""

    @abc.abstractmethod
    def texts(self, found: Any) -> list[str]:
        """The answers that it gave."""

    @abc.abstractmethod
    def maps(self, inputs: dict[str, tf.Tensor], found: Any) -> list[tuple[list[str], np.ndarray]]:
        """Names of the maps of each answer [T], and the attention over its picture [T, R, C]."""

    def questions(self, pairs: Pairs) -> Questions:
        """All of them."""

        def answer(rows: list[int]) -> list[str]:
            return self.texts(self.run(self.inputs_of(pairs, rows)))

        rows = range(len(pairs.sources))
        # As they stand, so that questions about a picture are answered together.
        return Questions.of_like_length(rows, [0] * len(rows), self._size, answer)

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """Answer the samples; the losses tell the accuracy of the whole split."""
        pairs = pairs.first(samples)
        if not pairs.sources:
            return Validation({}, None)
        inputs = self.inputs_of(pairs, range(len(pairs.sources)))
        found = self.run(inputs)
        maps = self.maps(inputs, found)
        return Validation(
            {},
            ValidationSamples(
                sources=pairs.sources,
                references=pairs.targets,
                hypotheses=self.texts(found),
                source_tokens=[[] for _ in maps],
                target_tokens=[names for names, _ in maps],
                alignments=[each for _, each in maps],
                pictures=[each.read("pixels") for each in pairs.pictures],
            ),
        )

    def inputs_of(self, pairs: Pairs, rows: Sequence[int]) -> dict[str, tf.Tensor]:
        """What the model reads of some pairs."""
        questions = ragged_ids([pairs.source_ids[row] for row in rows])  # [B, (Q)]
        pictures = np.stack([pairs.pictures[row].read(self.kind) for row in rows])
        return {"question": with_end(questions).to_tensor(), self.kind: tf.constant(pictures)}

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """Scores of answers."""
        references = [each.strip() for each in pairs.targets]
        scores = score_labels(references, answers)
        scores.table(console, "questions")
        return Evaluation(
            {"answers": dataclasses.asdict(scores)},
            {"source": pairs.sources, "reference": references, "hypothesis": answers},
        )


class ClassifierJudge(VisualJudge):
    """Of labels."""

    def answers(self, inputs: dict[str, tf.Tensor]) -> VisualAnswers:
        """Labels, and what each look at a picture looked at."""
        return self.model.answer(inputs)

    def texts(self, found: VisualAnswers) -> list[str]:
        """The labels' names."""
        pieces = self.task.vocabularies.target.pieces(found.labels)  # [B]
        return [piece.decode() for piece in pieces.numpy()]

    def maps(
        self, inputs: dict[str, tf.Tensor], found: VisualAnswers
    ) -> list[tuple[list[str], np.ndarray]]:
        """Where each look at the picture went."""
        names = [f"look {look + 1}" for look in range(found.weights.shape[1])]
        return [(names, each) for each in found.weights.numpy()]


class GeneratorJudge(VisualJudge):
    """Of answers that are written; an answer is right if it is the reference to the letter."""

    def answers(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        """Ids [B, T] by the experiment's search."""
        return self.model.translate(inputs, search_options(self.task.experiment)).ids[:, 0, :]

    def texts(self, found: tf.Tensor) -> list[str]:
        """Of ids."""
        texts = self.task.vocabularies.target.decode(found)  # [B]
        return [text.decode("utf-8", "replace") for text in texts.numpy()]

    def maps(
        self, inputs: dict[str, tf.Tensor], found: tf.Tensor
    ) -> list[tuple[list[str], np.ndarray]]:
        """Where each piece of an answer looked."""
        weights = self.model.look(inputs, found).numpy()  # [B, T, R, R]
        pieces = self.task.vocabularies.target.pieces(found).numpy()  # [B, T]
        told = [[piece.decode() for piece in row if piece] for row in pieces]
        return [(row, each[: len(row)]) for row, each in zip(told, weights, strict=True)]
