"""Classification: a label for each text."""

import dataclasses

import numpy as np
import rich.console
import tensorflow as tf

from models.classification import (
    ClassificationModel,
    Classified,
    classification_source,
)
from models.separators import SENTENCE
from models.sequence_model import SequenceModel
from models.tokenizers import TextVocabulary, ragged_ids
from pipeline.batches import Marked, Pairs
from pipeline.label_scoring import score_labels
from pipeline.monitor.panel import ValidationSamples
from pipeline.questions import Questions
from pipeline.tasks.contract import Evaluation, Judge, Task, Validation
from serving.services.classification import ClassificationService

_Picture = tuple[list[str], list[str], np.ndarray]  # pieces, names of rows, weights [R, S]


class ClassificationTask(Task):
    """A text to a label, by `ClassificationModel`."""

    def build_model(self) -> ClassificationModel:
        """The classifier."""
        options = self.experiment.model
        model = ClassificationModel(
            self.source.size,
            self.vocabularies.target.size,
            pooling=self.pooling,
            attention_units=options.classification.attention_units,
            encoder=options.encoder.model_dump(),
            **options.of_all_networks,
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    @property
    def source(self) -> TextVocabulary:
        """Vocabulary of the texts."""
        assert self.vocabularies.source is not None
        return self.vocabularies.source

    @property
    def pooling(self) -> str:
        """How the model sums up."""
        return self.experiment.model.classification.pooling

    def arrange(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """What the model reads of ids, ragged int32 [B, (L)]: [B, S], or [B, D, S]."""
        return classification_source(ids, self.pooling, self.source.piece_id(SENTENCE))

    def mark(self, source: tf.RaggedTensor, target: tf.RaggedTensor) -> Marked:
        """The text, in sentences if they are read one by one, and the label."""
        arranged = self.arrange(source)
        # Batches are padded from ragged tensors; this one is padded already.
        inputs = {"source": tf.RaggedTensor.from_tensor(arranged, ragged_rank=1)}
        # A record has one label, which fixed shapes must not pad.
        return inputs, tf.RaggedTensor.from_uniform_row_length(target.flat_values, 1)

    def judge(self, model: SequenceModel) -> "ClassificationJudge":
        """By the share of labels that are right, and what they were read from."""
        assert isinstance(model, ClassificationModel)
        return ClassificationJudge(self, model)

    def service(self, model: SequenceModel) -> ClassificationService:
        """The label, all labels, and the attention where there is one."""
        assert isinstance(model, ClassificationModel)
        return ClassificationService(
            model,
            self.source,
            self.vocabularies.target,
            self.experiment.export.max_source_length,
        )


class ClassificationJudge(Judge):
    """Accuracy, macro-F1 and what is taken for what."""

    def __init__(self, task: ClassificationTask, model: ClassificationModel):
        self._task = task
        self._model = model
        self._size = task.experiment.search.batch_size
        spec = tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)
        self._classify = tf.function(self._classified, input_signature=[spec])

    def questions(self, pairs: Pairs) -> Questions:
        """The labels of all texts."""
        lengths = [len(each) for each in pairs.source_ids]

        def classify(ids: list[list[int]]) -> list[str]:
            return self._labels(self._classify(ragged_ids(ids))[0])

        return Questions.of_like_length(
            pairs.source_ids, lengths, self._size, classify, "classifying", "texts"
        )

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """Classify the samples; the losses tell the accuracy of the whole split."""
        shown = pairs.first(samples)
        if not shown.sources:
            return Validation({}, None)
        found, source = self._classify(ragged_ids(shown.source_ids))
        labels = self._labels(found)
        pictures: list[_Picture] = [([], [], np.zeros([0, 0])) for _ in labels]
        if found.weights is not None:
            pieces = self._task.source.pieces(source).numpy()  # [B, S] or [B, D, S]
            shares = None if found.sentence_weights is None else found.sentence_weights.numpy()
            pictures = [
                _picture(pieces[row], weights, None if shares is None else shares[row])
                for row, weights in enumerate(found.weights.numpy())
            ]
        return Validation(
            {},
            ValidationSamples(
                sources=shown.sources,
                references=shown.targets,
                hypotheses=labels,
                source_tokens=[each[0] for each in pictures],
                target_tokens=[each[1] for each in pictures],
                alignments=[each[2] for each in pictures],
            ),
        )

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """Scores of labels, and what is taken for what."""
        references = [each.strip() for each in pairs.targets]
        scores = score_labels(references, answers)
        scores.table(console, "texts")
        scores.confusion_table(console)
        return Evaluation(
            {"labels": dataclasses.asdict(scores)},
            {"source": pairs.sources, "reference": references, "hypothesis": answers},
        )

    def _classified(self, ids: tf.RaggedTensor) -> tuple[Classified, tf.Tensor]:
        source = self._task.arrange(ids)  # [B, S] or [B, D, S]
        return self._model.classify(source), source

    def _labels(self, found: Classified) -> list[str]:
        pieces = self._task.vocabularies.target.pieces(found.labels)  # [B]
        return [piece.decode() for piece in pieces.numpy()]


def _picture(pieces: np.ndarray, weights: np.ndarray, shares: np.ndarray | None) -> _Picture:
    """Pieces, names of rows, and the rows: attention to each piece and to its sentence.

    Args:
        pieces: Bytes [S] or [D, S]; empty where there is none.
        weights: [S] or [D, S].
        shares: Of the sentences, [D]; None if there are none.
    """
    real = pieces != b""
    rows, names = [weights[real]], ["words"]
    if shares is not None:
        rows.append(np.broadcast_to(shares[:, np.newaxis], pieces.shape)[real])
        names.append("sentences")
    return [piece.decode("utf-8", "replace") for piece in pieces[real]], names, np.stack(rows)
