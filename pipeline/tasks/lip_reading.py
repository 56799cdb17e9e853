"""Lip reading: the frames of a clip to a text."""

import dataclasses
from typing import Any

import rich.console
import tensorflow as tf

from models.lip_reading import LipReadingModel
from models.sequence_model import SequenceModel
from models.tokenizers import with_begin, with_end
from pipeline.assembly import search_options
from pipeline.batches import Marked, Pairs
from pipeline.clips import READ, Clip, clips_of, read_clips
from pipeline.lip_scoring import score_lips
from pipeline.monitor.panel import ValidationSamples
from pipeline.questions import Questions
from pipeline.scoring import bleu_and_chrf, tokenizer_for
from pipeline.tasks.clips import ClipTask
from pipeline.tasks.contract import Evaluation, Judge, Validation
from pipeline.writer import Writer
from serving.services.lip_reading import LipReadingOptions, LipReadingService


class LipReadingTask(ClipTask):
    """Clips, whose source ids number their frames, to texts, by `LipReadingModel`."""

    def build_model(self) -> LipReadingModel:
        """The decoder over frames, with the network that sees them."""
        options = self.experiment.model
        model = LipReadingModel(
            self.vocabularies.target.size,
            encoder=self.encoder,
            decoder=options.decoder.model_dump(),
            attention=options.attention.model_dump(),
            **options.of_all_networks,
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    def mark(
        self, source: tf.RaggedTensor, target: tf.RaggedTensor, pictures: tf.Tensor | None = None
    ) -> Marked:
        """The clips, and the text as it is read and predicted."""
        inputs = {**self.clips(source, pictures), "target": with_begin(target)}
        return inputs, with_end(target)

    def judge(self, model: SequenceModel) -> "LipReadingJudge":
        """By reading: greedily in training, with the experiment's search in evaluation."""
        assert isinstance(model, LipReadingModel)
        return LipReadingJudge(self, model)

    def service(self, model: SequenceModel) -> LipReadingService:
        """Texts of clips, and where each piece looks."""
        assert isinstance(model, LipReadingModel)
        options = LipReadingOptions(
            search_options(self.experiment),
            self.experiment.data.pictures.max_pixels,
            self.experiment.export.max_source_length,
        )
        return LipReadingService(model, self.vocabularies.target, options)


class LipReader(Writer[Clip]):
    """Reads clips."""

    doing = "reading"
    unit = "clips"

    @property
    def packed(self) -> Any:
        """Frames [B, T, S, S, 3], and how many are real [B]."""
        return READ

    def pack(self, sources: list[Clip]) -> dict[str, tf.Tensor]:
        """What the model reads of clips."""
        return read_clips(sources)

    def length(self, source: Clip) -> int:
        """Frames."""
        return source.frames


class LipReadingJudge(Judge):
    """chrF and BLEU in training; the error rates of characters and words in evaluation."""

    def __init__(self, task: LipReadingTask, model: LipReadingModel):
        self._model = model
        self._task = task
        self._tokenize = tokenizer_for(task.experiment.data.target_language)
        given = (task.experiment, model, task.vocabularies.target)
        self._greedy, self._final = LipReader.of(*given, kind="greedy"), LipReader.of(*given)

    def validation_questions(self, pairs: Pairs) -> Questions:
        """Greedy readings of all clips."""
        return self._greedy.questions(clips_of(pairs))

    def questions(self, pairs: Pairs) -> Questions:
        """Readings by the experiment's search."""
        return self._final.questions(clips_of(pairs))

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """Characters and words that are right, as chrF and BLEU have it."""
        metrics = bleu_and_chrf(answers, pairs.targets, self._tokenize)
        return Validation(metrics, self._samples(pairs.first(samples), answers[:samples]))

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """All scores."""
        scores = score_lips(answers, pairs.targets)
        scores.table(console)
        search = self._task.experiment.search.model_dump()
        return Evaluation(
            {"search": search, **dataclasses.asdict(scores)},
            {"source": pairs.sources, "reference": pairs.targets, "hypothesis": answers},
        )

    def _samples(self, pairs: Pairs, texts: list[str]) -> ValidationSamples | None:
        if not texts:
            return None
        clips, vocabulary = clips_of(pairs), self._task.vocabularies.target
        labels = with_end(vocabulary.encode(tf.constant(texts))).to_tensor()  # [B, L]
        weights = self._model.look(read_clips(clips), labels).numpy()  # [B, L, T]
        pieces = [
            [piece.decode() for piece in row if piece] for row in vocabulary.pieces(labels).numpy()
        ]
        rows = zip(weights, pieces, clips, strict=True)
        return ValidationSamples(
            sources=pairs.sources,
            references=pairs.targets,
            hypotheses=texts,
            source_tokens=[[str(frame + 1) for frame in range(clip.frames)] for clip in clips],
            target_tokens=pieces,
            alignments=[each[: len(row), : clip.frames] for each, row, clip in rows],
        )
