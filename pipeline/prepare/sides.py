"""What the two sides of a pair are in each task: which are kept, and what their ids stand for."""

from typing import NamedTuple

from models.separators import QUESTION, SENTENCE
from pipeline.experiment import Experiment
from pipeline.prepare.readers import make_reader

SHARED = "shared"


class Side(NamedTuple):
    """One side of the pairs of an experiment.

    Attributes:
        vocabulary: Name of its vocabulary: the side's own, or `shared`.
        kind: `unigram` or `bpe` (SentencePiece), `word`, `character`, `byte`, or `label`, whose
            whole text is one piece.
        size: Pieces at most; None for as many as there are.
        separators: Characters that always are a piece of their own.
    """

    vocabulary: str
    kind: str
    size: int | None
    separators: tuple[str, ...] = ()


def sides_of(experiment: Experiment) -> dict[str, Side]:
    """The sides that records of an experiment hold; a task may have no use for the source."""
    return _SIDES[experiment.model.task](experiment)


def _translation(experiment: Experiment) -> dict[str, Side]:
    options = experiment.vocabulary
    separators = _separators(experiment)
    if options.shared:
        shared = Side(SHARED, options.algorithm, options.source_size, separators)
        return {"source": shared, "target": shared}
    return {
        "source": Side("source", options.algorithm, options.source_size, separators),
        "target": Side("target", options.algorithm, options.target_size),
    }


def _separators(experiment: Experiment) -> tuple[str, ...]:
    """What the readers of an experiment put between the parts of a source."""
    found = {
        separator
        for corpus in experiment.data.inputs
        for separator in make_reader(corpus).separators
    }
    return tuple(each for each in (SENTENCE, QUESTION) if each in found)


def _language_model(experiment: Experiment) -> dict[str, Side]:
    options = experiment.vocabulary
    return {"target": Side("target", options.algorithm, options.target_size)}


def _classification(experiment: Experiment) -> dict[str, Side]:
    options = experiment.vocabulary
    return {
        "source": Side("source", options.algorithm, options.source_size, (SENTENCE,)),
        "target": Side("target", "label", None),
    }


def _tagging(experiment: Experiment) -> dict[str, Side]:
    # A tag belongs to a word, whatever the algorithm of other tasks.
    return {
        "source": Side("source", "word", experiment.vocabulary.source_size),
        "target": Side("target", "word", None),
    }


def _answering(experiment: Experiment) -> dict[str, Side]:
    options = experiment.vocabulary
    return {
        "source": Side("source", options.algorithm, options.source_size, (SENTENCE, QUESTION)),
        "target": Side("target", "label", None),
    }


def _captioning(experiment: Experiment) -> dict[str, Side]:
    # A picture has no pieces, nor has a clip.
    options = experiment.vocabulary
    return {"target": Side("target", options.algorithm, options.target_size)}


def _frame_tagging(experiment: Experiment) -> dict[str, Side]:
    return {"target": Side("target", "word", None)}


def _visual_answering(experiment: Experiment) -> dict[str, Side]:
    options = experiment.vocabulary
    if experiment.model.visual_answering.form == "classifier":
        target = Side("target", "label", None)
    else:
        target = Side("target", options.algorithm, options.target_size)
    return {"source": Side("source", options.algorithm, options.source_size), "target": target}


_SIDES = {
    "translation": _translation,
    "language_model": _language_model,
    "classification": _classification,
    "tagging": _tagging,
    "answering": _answering,
    "captioning": _captioning,
    "visual_answering": _visual_answering,
    "lip_reading": _captioning,
    "frame_tagging": _frame_tagging,
}
