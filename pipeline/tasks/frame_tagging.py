"""Frame tagging: a tag for each frame of a clip."""

import dataclasses
import itertools
from typing import Any

import rich.console
import tensorflow as tf

from models.frame_tagging import FrameTaggingModel
from models.sequence_model import SequenceModel
from pipeline.batches import Marked, Pairs
from pipeline.clips import READ, Clip, clips_of, read_clips
from pipeline.label_scoring import score_labels
from pipeline.monitor.panel import ValidationSamples
from pipeline.questions import Questions
from pipeline.tasks.contract import Evaluation, Judge, Task, Validation
from serving.services.frame_tagging import FrameTaggingService


class FrameTaggingTask(Task):
    """Clips, whose source ids number their frames, to tags, by `FrameTaggingModel`."""

    @property
    def asks(self) -> dict[str, Any]:
        """The frames."""
        return {"pictures": "pixels", "clips": True}

    def build_model(self) -> FrameTaggingModel:
        """The tagger, with the network that sees frames."""
        options, pictures = self.experiment.model, self.experiment.data.pictures
        backbone = {"name": pictures.backbone, "weights": pictures.weights}
        model = FrameTaggingModel(
            self.vocabularies.target.size,
            encoder={**options.encoder.model_dump(), "backbone": backbone},
            **options.of_all_networks,
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    def mark(
        self, source: tf.RaggedTensor, target: tf.RaggedTensor, pictures: tf.Tensor | None = None
    ) -> Marked:
        """The clips, and the tags."""
        assert pictures is not None
        frames = tf.cast(source.row_lengths(), tf.int32)  # [B]
        return {"pixels": pictures, "frames": frames}, target

    def judge(self, model: SequenceModel) -> "FrameTaggingJudge":
        """By tagging clips."""
        assert isinstance(model, FrameTaggingModel)
        return FrameTaggingJudge(self, model)

    def service(self, model: SequenceModel) -> FrameTaggingService:
        """The signature of frame tagging."""
        assert isinstance(model, FrameTaggingModel)
        return FrameTaggingService(
            model,
            self.vocabularies.target,
            self.experiment.data.pictures.max_pixels,
            self.experiment.export.max_source_length,
        )


class FrameTaggingJudge(Judge):
    """Accuracy of tags, and of whole clips."""

    def __init__(self, task: FrameTaggingTask, model: FrameTaggingModel):
        self._tags = task.vocabularies.target
        self._model = model
        self._size = task.experiment.search.batch_size
        self._tag = tf.function(self._tags_of_clips, input_signature=[READ])

    def questions(self, pairs: Pairs) -> Questions:
        """The tags of all clips."""
        clips = clips_of(pairs)
        lengths = [each.frames for each in clips]
        return Questions.of_like_length(
            clips, lengths, self._size, self._tag_some, "tagging", "clips"
        )

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """Tag the samples; the losses tell the accuracy of the whole split."""
        if not samples:
            return Validation({}, None)
        shown = pairs.first(samples)
        tags = self._tag_some(clips_of(shown))
        return Validation({}, ValidationSamples(shown.sources, shown.targets, tags, [], [], []))

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """Scores of tags and whole clips."""
        tags = [each.split() for each in answers]
        references = [each.split() for each in pairs.targets]
        chain = itertools.chain.from_iterable
        scores = score_labels(list(chain(references)), list(chain(tags)))
        whole = sum(one == other for one, other in zip(tags, references, strict=True))
        scores.table(console, "frames")
        console.print(
            f"Right: {whole:,} of {len(tags):,} clips ({whole / len(tags):.2%}) to the last frame"
        )
        report = {
            "clips": len(tags),
            "clips_right": whole / len(tags),
            "tags": dataclasses.asdict(scores),
        }
        lines = {"source": pairs.sources, "reference": pairs.targets, "hypothesis": answers}
        return Evaluation(report, lines)

    def _tag_some(self, clips: list[Clip]) -> list[str]:
        """The tags of each clip, with spaces between them."""
        rows = self._tag(read_clips(clips)).numpy()  # [B, T]
        return [" ".join(tag.decode() for tag in row if tag) for row in rows]

    def _tags_of_clips(self, clips: dict[str, tf.Tensor]) -> tf.Tensor:
        return self._tags.pieces(self._model.tag(clips).ids)  # [B, T]
