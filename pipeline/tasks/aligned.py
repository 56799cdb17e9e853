"""What all tasks share that give each part of a source a tag."""

import abc
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from pipeline.batches import Pairs
from pipeline.label_scoring import LabelScores, score_labels
from pipeline.monitor.panel import ValidationSamples
from pipeline.questions import Questions
from pipeline.tasks.contract import Judge, Validation


class TagScores(NamedTuple):
    """How tags went.

    Attributes:
        tags: Those that were found, of each source.
        references: Those that are right.
        scores: Of single tags.
        whole: Sources of which all are right.
    """

    tags: list[list[str]]
    references: list[list[str]]
    scores: LabelScores
    whole: int


class AlignedJudge(Judge, abc.ABC):
    """Contract: judges by tags, which members find and report.

    Args:
        size: Sources that are tagged at once.
        unit: What a source is called, in the plural.
    """

    def __init__(self, size: int, unit: str):
        self._size = size
        self._unit = unit

    @abc.abstractmethod
    def sources(self, pairs: Pairs) -> Sequence[Any]:
        """What is tagged of pairs."""

    @abc.abstractmethod
    def tag(self, sources: list[Any]) -> tf.Tensor:
        """Tags of some of these, string [B, S], padded with ""."""

    def questions(self, pairs: Pairs) -> Questions:
        """The tags of all sources."""
        lengths = [len(each) for each in pairs.source_ids]
        return Questions.of_like_length(
            self.sources(pairs), lengths, self._size, self._tag_some, "tagging", self._unit
        )

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """Tag the samples; the losses tell the accuracy of the whole split."""
        if not samples:
            return Validation({}, None)
        shown = pairs.first(samples)
        tags = self._tag_some(list(self.sources(shown)))
        return Validation({}, ValidationSamples(shown.sources, shown.targets, tags, [], [], []))

    def _tag_some(self, sources: list[Any]) -> list[str]:
        """The tags of each, with spaces between them."""
        rows = self.tag(sources).numpy()  # [B, S]
        return [" ".join(tag.decode() for tag in row if tag) for row in rows]


def score_tags(pairs: Pairs, answers: list[str]) -> TagScores:
    """Score tags against references, both with spaces between them."""
    tags = [each.split() for each in answers]
    references = [each.split() for each in pairs.targets]
    chain = itertools.chain.from_iterable
    scores = score_labels(list(chain(references)), list(chain(tags)))
    whole = sum(one == other for one, other in zip(tags, references, strict=True))
    return TagScores(tags, references, scores, whole)
