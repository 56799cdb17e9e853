"""From an experiment and its prepared data to the objects that work on them."""

import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.errors import UserError
from models.losses import FullSoftmax, NoiseContrastiveEstimation, VocabularyLoss
from models.search.hypotheses import SearchOptions
from models.tokenizers import SentencePieceText
from models.translation import TranslationModel
from pipeline.experiment import Experiment
from pipeline.workspace import Workspace


class Vocabularies(NamedTuple):
    """The vocabularies of a run; the same object twice where it is shared."""

    source: SentencePieceText
    target: SentencePieceText


def load_vocabularies(experiment: Experiment, workspace: Workspace) -> Vocabularies:
    """The vocabularies that `prepare` published."""
    if experiment.vocabulary.shared:
        shared = SentencePieceText(_bytes(workspace.vocabulary("shared")))
        return Vocabularies(shared, shared)
    return Vocabularies(
        SentencePieceText(_bytes(workspace.vocabulary("source"))),
        SentencePieceText(_bytes(workspace.vocabulary("target"))),
    )


def build_model(experiment: Experiment, vocabularies: Vocabularies) -> TranslationModel:
    """The model of an experiment, with its variables."""
    options = experiment.model
    model = TranslationModel(
        vocabularies.source.size,
        vocabularies.target.size,
        cell=options.cell,
        embedding_size=options.embedding_size,
        dropout=options.dropout,
        encoder=options.encoder.model_dump(),
        decoder=options.decoder.model_dump(),
        attention=options.attention.model_dump(),
        initializer_range=options.initializer_range,
        name=experiment.export.model_name,
    )
    model.build()
    return model


def build_loss(experiment: Experiment, workspace: Workspace) -> VocabularyLoss:
    """The training loss of an experiment."""
    options = experiment.train.loss
    if options.kind == "nce":
        counts = _unigram_counts(workspace.counts("target"))
        return NoiseContrastiveEstimation(counts, options.noise_words, options.distortion)
    return FullSoftmax(options.label_smoothing)


def search_options(experiment: Experiment, **changes: int | str) -> SearchOptions:
    """The search of an experiment.

    Args:
        experiment: The experiment.
        **changes: Fields of `SearchOptions` that differ.
    """
    options = experiment.search.model_dump(exclude={"batch_size"})
    return SearchOptions(**{**options, **changes})


def configure_tensorflow(experiment: Experiment) -> None:
    """Threads, before the first op runs; later calls have no effect."""
    try:
        tf.config.threading.set_intra_op_parallelism_threads(experiment.cluster.intra_op_threads)
        tf.config.threading.set_inter_op_parallelism_threads(experiment.cluster.inter_op_threads)
    except RuntimeError:
        pass  # TensorFlow has started already and keeps the threads it has.


def _bytes(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such vocabulary; run `seqloom prepare` first") from None


def _unigram_counts(path: pathlib.Path) -> np.ndarray:
    """Counts, int64 [V], by id."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise UserError(f"{path}: no such counts; run `seqloom prepare` first") from None
    return np.array([int(line.rsplit("\t", 1)[1]) for line in lines if line], np.int64)
