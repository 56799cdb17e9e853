"""Frame tagging: a tag for each frame of a clip."""

import dataclasses

import rich.console
import tensorflow as tf

from models.frame_tagging import FrameTaggingModel
from models.sequence_model import SequenceModel
from pipeline.batches import Marked, Pairs
from pipeline.clips import READ, Clip, clips_of, read_clips
from pipeline.tasks.aligned import AlignedJudge, score_tags
from pipeline.tasks.clips import ClipTask
from pipeline.tasks.contract import Evaluation
from serving.services.frame_tagging import FrameTaggingService


class FrameTaggingTask(ClipTask):
    """Clips, whose source ids number their frames, to tags, by `FrameTaggingModel`."""

    def build_model(self) -> FrameTaggingModel:
        """The tagger, with the network that sees frames."""
        model = FrameTaggingModel(
            self.vocabularies.target.size,
            encoder=self.encoder,
            **self.experiment.model.of_all_networks,
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    def mark(
        self, source: tf.RaggedTensor, target: tf.RaggedTensor, pictures: tf.Tensor | None = None
    ) -> Marked:
        """The clips, and the tags."""
        return self.clips(source, pictures), target

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


class FrameTaggingJudge(AlignedJudge):
    """Accuracy of tags, and of whole clips."""

    def __init__(self, task: FrameTaggingTask, model: FrameTaggingModel):
        super().__init__(task.experiment.search.batch_size, "clips")
        self._tags = task.vocabularies.target
        self._model = model
        self._tag = tf.function(self._tags_of_clips, input_signature=[READ])

    def sources(self, pairs: Pairs) -> list[Clip]:
        """The clips."""
        return clips_of(pairs)

    def tag(self, sources: list[Clip]) -> tf.Tensor:
        """Tags of clips."""
        return self._tag(read_clips(sources))

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """Scores of tags and whole clips."""
        scored = score_tags(pairs, answers)
        count, whole = len(scored.tags), scored.whole
        scored.scores.table(console, "frames")
        console.print(
            f"Right: {whole:,} of {count:,} clips ({whole / count:.2%}) to the last frame"
        )
        report = {
            "clips": count,
            "clips_right": whole / count,
            "tags": dataclasses.asdict(scored.scores),
        }
        lines = {"source": pairs.sources, "reference": pairs.targets, "hypothesis": answers}
        return Evaluation(report, lines)

    def _tags_of_clips(self, clips: dict[str, tf.Tensor]) -> tf.Tensor:
        return self._tags.pieces(self._model.tag(clips).ids)  # [B, T]
