"""Answering: a story and a question about it to a label."""

import dataclasses

import numpy as np
import rich.console
import tensorflow as tf

from models.answering import AnsweringModel, Answers
from models.separators import QUESTION, SENTENCE
from models.sequence_model import SequenceModel
from models.stories import split_question
from models.tokenizers import TextVocabulary, ragged_ids, with_end
from pipeline.batches import Marked, Pairs
from pipeline.experiment import Experiment
from pipeline.label_scoring import score_labels
from pipeline.monitor.panel import ValidationSamples
from pipeline.questions import Questions
from pipeline.tasks.contract import Evaluation, Judge, Task, Validation
from pipeline.vocabularies import Vocabularies
from serving.services.answering import AnsweringOptions, AnsweringService, position_texts


class AnsweringTask(Task):
    """A text that ends in a question to a label, by `AnsweringModel`."""

    def __init__(self, experiment: Experiment, vocabularies: Vocabularies):
        super().__init__(experiment, vocabularies)
        self._question_id = self.source.piece_id(QUESTION)

    def build_model(self) -> AnsweringModel:
        """The attentive reader."""
        options = self.experiment.model
        stack = options.encoder.model_dump(exclude={"self_attention"})
        model = AnsweringModel(
            self.source.size,
            self.vocabularies.target.size,
            self.source.piece_id(SENTENCE),
            level=options.answering.level,
            hops=options.answering.hops,
            embedding_size=options.embedding_size,
            dropout=options.dropout,
            stack={
                "cell": options.cell,
                "cell_options": options.cell_options.model_dump(),
                "variational_dropout": options.variational_dropout.model_dump(),
                **stack,
            },
            self_attention=options.encoder.self_attention.model_dump(),
            attention=options.attention.model_dump(),
            initializer_range=options.initializer_range,
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    @property
    def source(self) -> TextVocabulary:
        """Vocabulary of stories and questions."""
        assert self.vocabularies.source is not None
        return self.vocabularies.source

    def mark(self, source: tf.RaggedTensor, target: tf.RaggedTensor) -> Marked:
        """Story and question, both ended, and the label."""
        parts = split_question(source, self._question_id)
        # A record has one label, which fixed shapes must not pad.
        label = tf.RaggedTensor.from_uniform_row_length(target.flat_values, 1)
        return {"story": with_end(parts.story), "question": with_end(parts.question)}, label

    def judge(self, model: SequenceModel) -> "AnsweringJudge":
        """By the share of answers that are right."""
        assert isinstance(model, AnsweringModel)
        return AnsweringJudge(self, model)

    def service(self, model: SequenceModel) -> AnsweringService:
        """Answers, and what they were read from."""
        assert isinstance(model, AnsweringModel)
        options = AnsweringOptions(self.experiment.export.max_source_length)
        return AnsweringService(model, self.source, self.vocabularies.target, options)


class AnsweringJudge(Judge):
    """Accuracy, over all and by answer."""

    def __init__(self, task: AnsweringTask, model: AnsweringModel):
        self._task = task
        self._model = model
        self._size = task.experiment.search.batch_size
        spec = tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)
        self._answer = tf.function(self._answers, input_signature=[spec])

    def questions(self, pairs: Pairs) -> Questions:
        """All of them."""
        lengths = [len(each) for each in pairs.source_ids]

        def answer(ids: list[list[int]]) -> list[str]:
            return self._texts(self._answer(ragged_ids(ids)))

        return Questions.of_like_length(pairs.source_ids, lengths, self._size, answer)

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """Answer the samples; the losses tell the accuracy of the whole split."""
        asked = pairs.source_ids[:samples]
        if not asked:
            return Validation({}, None)
        found = self._answer(ragged_ids(asked))
        texts = position_texts(self._task.source, found.positions).numpy()  # [B, P]
        pictures = [_picture(*each) for each in zip(texts, found.weights.numpy(), strict=True)]
        return Validation(
            {},
            ValidationSamples(
                sources=pairs.sources[:samples],
                references=pairs.targets[:samples],
                hypotheses=self._texts(found),
                source_tokens=[each[0] for each in pictures],
                target_tokens=[each[1] for each in pictures],
                alignments=[each[2] for each in pictures],
            ),
        )

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

    def _answers(self, source: tf.RaggedTensor) -> Answers:
        inputs, _ = self._task.mark(source, source)
        return self._model.answer(**{name: ids.to_tensor() for name, ids in inputs.items()})

    def _texts(self, answers: Answers) -> list[str]:
        pieces = self._task.vocabularies.target.pieces(answers.labels)  # [B]
        return [piece.decode() for piece in pieces.numpy()]


def _picture(texts: np.ndarray, weights: np.ndarray) -> tuple[list[str], list[str], np.ndarray]:
    """What stands at the real positions, names of the reads, and their attention there.

    Args:
        texts: Bytes [P], empty at pads.
        weights: [K, P].
    """
    length = np.flatnonzero(texts != b"").max(initial=-1) + 1
    positions = [text.decode("utf-8", "replace") for text in texts[:length]]
    return positions, [f"read {read + 1}" for read in range(len(weights))], weights[:, :length]
