"""From an experiment and its prepared data to the objects that work on them."""

import numpy as np
import tensorflow as tf

from models.errors import UserError
from models.losses import SAMPLED_LOSSES, FullSoftmax, VocabularyLoss
from models.projection import VocabularyProjection
from models.search.hypotheses import SearchOptions
from pipeline.experiment import Experiment
from pipeline.places import Place
from pipeline.prepare.sides import sides_of
from pipeline.workspace import Workspace


def build_loss(
    experiment: Experiment, workspace: Workspace, vocabulary_size: int
) -> VocabularyLoss:
    """The training loss of an experiment.

    Args:
        experiment: The experiment.
        workspace: Holds the unigram counts that noise words are drawn by.
        vocabulary_size: Words that the model's projection scores.

    Raises:
        UserError: If the loss draws noise words, and there are no counts of these words to draw
            them by, or the vocabulary is not sorted as `log_uniform` needs it.
    """
    options = experiment.train.loss
    if options.kind == "full":
        return FullSoftmax(options.label_smoothing)
    path = workspace.counts("target")
    counts = _read_counts(path, vocabulary_size)
    if counts.sum() <= 0:
        raise UserError(
            f"{path} counts no word at all, so that train.loss.kind has no noise to draw; name "
            f"inputs in data.train and run `seqloom prepare` again, or set train.loss.kind to full"
        )
    return SAMPLED_LOSSES[options.kind](
        counts, options.noise_words, options.distortion, options.noise
    )


def start_projection(
    experiment: Experiment, workspace: Workspace, projection: VocabularyProjection
) -> None:
    """Let a model begin with the words of its vocabulary as likely as the training data have them.

    Training then begins with what words follow from, instead of how often each comes. Labels of
    whole texts begin as likely as each other.

    Args:
        experiment: The experiment.
        workspace: Holds the unigram counts.
        projection: The model's, with variables.

    Raises:
        UserError: If there are no counts of these words.
    """
    if sides_of(experiment)["target"].kind != "label":
        projection.start_from(_read_counts(workspace.counts("target"), projection.vocabulary_size))


def search_options(experiment: Experiment, **changes: int | str) -> SearchOptions:
    """The search of an experiment.

    Args:
        experiment: The experiment.
        **changes: Fields of `SearchOptions` that differ.
    """
    options = experiment.search.model_dump(exclude={"batch_size", "ensemble"})
    return SearchOptions(**{**options, **changes})


def configure_tensorflow(experiment: Experiment) -> None:
    """Threads, before the first op runs; later calls have no effect."""
    try:
        tf.config.threading.set_intra_op_parallelism_threads(experiment.cluster.intra_op_threads)
        tf.config.threading.set_inter_op_parallelism_threads(experiment.cluster.inter_op_threads)
    except RuntimeError:
        pass  # TensorFlow has started already and keeps the threads it has.


def _read_counts(path: Place, vocabulary_size: int) -> np.ndarray:
    """Unigram counts, int64 [V], by id."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise UserError(f"{path}: no such counts; run `seqloom prepare` first") from None
    counts = np.array([int(line.rsplit("\t", 1)[1]) for line in lines if line], np.int64)
    if len(counts) != vocabulary_size:
        raise UserError(
            f"{path} counts {len(counts)} words, and the model scores {vocabulary_size}; run "
            f"`seqloom prepare` again"
        )
    return counts
