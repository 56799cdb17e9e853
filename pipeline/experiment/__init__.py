"""Experiment: every choice of a run in one typed document.

Each default lives here and nowhere else. `pipeline/experiment_file.py` reads the YAML form
and applies `--set`; `configs/reference.yaml` shows every key with its default.
"""

import pydantic
from pydantic import Field

from pipeline.experiment.data import (
    Cleaning,
    CorpusFile,
    DataSection,
    PictureOptions,
    VocabularySection,
)
from pipeline.experiment.deploy import DeploySection
from pipeline.experiment.model import AttentionOptions, CellOptions, EncoderOptions, ModelSection
from pipeline.experiment.section import Name, NonNegativeInt, Section
from pipeline.experiment.stages import ClusterSection, ExportSection, SearchSection, ServingSection
from pipeline.experiment.submit import SubmitSection
from pipeline.experiment.task_groups import CLIP_TASKS
from pipeline.experiment.train import ClipOptions, ScheduleOptions, TrainSection
from pipeline.experiment.unused import refuse_unused

__all__ = [
    "AttentionOptions",
    "CellOptions",
    "Cleaning",
    "ClipOptions",
    "ClusterSection",
    "CorpusFile",
    "DataSection",
    "DeploySection",
    "EncoderOptions",
    "Experiment",
    "ExportSection",
    "METRICS",
    "ModelSection",
    "PictureOptions",
    "ScheduleOptions",
    "SearchSection",
    "Section",
    "ServingSection",
    "SubmitSection",
    "TrainSection",
    "VocabularySection",
]

# What a validation of each task measures; the first chooses the best model unless another is named.
METRICS: dict[str, tuple[str, ...]] = {
    "translation": ("bleu", "chrf", "loss", "perplexity", "accuracy"),
    "language_model": ("perplexity", "loss", "accuracy"),
    "classification": ("accuracy", "loss", "perplexity"),
    "tagging": ("accuracy", "loss", "perplexity"),
    "answering": ("accuracy", "loss", "perplexity"),
    "captioning": ("cider", "bleu", "chrf", "loss", "perplexity", "accuracy"),
    "visual_answering": ("accuracy", "loss", "perplexity"),
    "lip_reading": ("chrf", "bleu", "loss", "perplexity", "accuracy"),
    "frame_tagging": ("accuracy", "loss", "perplexity"),
}


class Experiment(Section):
    """One run, from corpora to server.

    Attributes mirror the top-level keys of the YAML.
    """

    name: Name = Field(description="Name of the run.")
    workspace: str | None = Field(
        None, description="Folder or URL of the run; runs/<name> if null."
    )
    seed: NonNegativeInt = Field(1, description="Of data order, weights, dropout and noise.")
    data: DataSection
    vocabulary: VocabularySection = VocabularySection()
    model: ModelSection = ModelSection()
    train: TrainSection = TrainSection()
    search: SearchSection = SearchSection()
    export: ExportSection = ExportSection()
    serving: ServingSection = ServingSection()
    cluster: ClusterSection = ClusterSection()
    deploy: DeploySection = DeploySection()
    submit: SubmitSection = SubmitSection()

    @property
    def best_metric(self) -> str:
        """Name of the metric that chooses the best model."""
        return self.train.best_metric or METRICS[self.model.task][0]

    @pydantic.model_validator(mode="after")
    def _fits_its_task(self):
        task = self.model.task
        if self.best_metric not in METRICS[task]:
            raise ValueError(
                f"train.best_metric {self.best_metric!r} is not measured for the task {task!r}; "
                f"expected one of {', '.join(METRICS[task])}"
            )
        if self.data.order == "corpus" and task != "language_model":
            raise ValueError(
                f"data.order 'corpus' is for language models, and model.task is {task!r}; "
                f"set it to shuffled"
            )
        if self.train.truncated_bptt.segment_length and self.data.order != "corpus":
            raise ValueError(
                f"train.truncated_bptt reads on from line to line, and data.order is "
                f"{self.data.order!r}; set it to corpus, or segment_length to null"
            )
        if self.train.truncated_bptt.segment_length and self.train.curriculum.growth != "none":
            raise ValueError(
                "train.curriculum orders lines by length, and train.truncated_bptt reads them in "
                "the corpus's order; set curriculum.growth to none, or segment_length to null"
            )
        if self.train.scheduled_sampling.decay != "none":
            _fits_scheduled_sampling(self)
        if self.vocabulary.shared and task != "translation":
            raise ValueError(
                f"vocabulary.shared is for translation, and model.task is {task!r}; set it to false"
            )
        if task == "answering":
            _fits_answering(self)
        _fits_pictures(self)
        _fits_conllu(self)
        if any(corpus.format == "text" for corpus in self.data.inputs) and task != "language_model":
            raise ValueError(
                f"data: format 'text' has no source, and model.task is {task!r}; name a file with "
                f"both sides, or set model.task to language_model"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _has_no_key_that_nothing_reads(self):
        refuse_unused(self)
        return self


def _fits_scheduled_sampling(experiment: Experiment) -> None:
    task = experiment.model.task
    if task not in ("translation", "language_model"):
        raise ValueError(
            f"train.scheduled_sampling needs a model that reads the words it predicts, and "
            f"model.task is {task!r}; set decay to none"
        )
    if experiment.train.truncated_bptt.segment_length:
        raise ValueError(
            "train.scheduled_sampling predicts lines from their own words alone, and "
            "train.truncated_bptt reads on from line to line; set decay to none, or "
            "segment_length to null"
        )


def _fits_answering(experiment: Experiment) -> None:
    if experiment.vocabulary.algorithm == "byte":
        raise ValueError(
            "vocabulary.algorithm 'byte' has no piece to part stories and questions by, and "
            "model.task is 'answering'; take another algorithm"
        )
    if experiment.model.answering.level == "sentence" and experiment.train.jit_compile:
        raise ValueError(
            "XLA cannot compile model.answering.level 'sentence'; set train.jit_compile to "
            "false, or the level to word"
        )
    for corpus in experiment.data.inputs:
        if corpus.format == "documents" and corpus.question_key is None:
            raise ValueError(
                "data: format 'documents' without the key question_key has no questions, and "
                "model.task is 'answering'; set question_key"
            )


# Formats that have what each task says of pictures.
_OF_PICTURES = {
    "captioning": ("coco", "tsv", "jsonl"),
    "visual_answering": ("documents",),
    "lip_reading": ("tsv", "jsonl"),
    "frame_tagging": ("tsv", "jsonl"),
}


def _fits_pictures(experiment: Experiment) -> None:
    task = experiment.model.task
    if task in _OF_PICTURES and experiment.train.jit_compile:
        raise ValueError(
            f"train.jit_compile pads batches to few shapes, which those of pictures are not, and "
            f"model.task is {task!r}; set it to false"
        )
    if task in CLIP_TASKS and not experiment.data.pictures.fine_tune:
        raise ValueError(
            f"data.pictures.fine_tune is false, and model.task is {task!r}, whose network learns "
            f"with the rest; set it to true, and for one that learns from nothing backbone to "
            f"tiny and weights to null"
        )
    for corpus in experiment.data.inputs:
        if task in _OF_PICTURES and corpus.format not in _OF_PICTURES[task]:
            raise ValueError(
                f"data: format {corpus.format!r} has no pictures, and model.task is {task!r}; "
                f"expected {' or '.join(_OF_PICTURES[task])}"
            )
        if task == "visual_answering" and corpus.question_key is None:
            raise ValueError(
                "data: format 'documents' without the key question_key has no questions, and "
                "model.task is 'visual_answering'; set question_key"
            )
        if task != "captioning" and corpus.format == "coco":
            raise ValueError(
                f"data: format 'coco' has pictures, and model.task is {task!r}; set it to "
                f"captioning"
            )


def _fits_conllu(experiment: Experiment) -> None:
    task = experiment.model.task
    for corpus in experiment.data.inputs:
        if corpus.format != "conllu":
            continue
        if task == "tagging" and corpus.label is not None:
            raise ValueError(
                f"data: label {corpus.label!r} is one for a whole record, and model.task is "
                f"'tagging'; remove it, or set model.task to classification"
            )
        if task == "classification" and corpus.label is None:
            raise ValueError(
                "data: format 'conllu' without the key label has a tag a word, and model.task is "
                "'classification'; set label to genre, or model.task to tagging"
            )
