"""Training methods that change as a run goes on: which pairs, which words, with what weight."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from models.scheduled_sampling import ScheduledSampling
from models.self_paced import SelfPaced
from models.sequence_model import SequenceModel
from pipeline.batch_plan import BatchOptions
from pipeline.batches import length_range
from pipeline.experiment import TrainSection
from pipeline.places import Place
from pipeline.train.curriculum import Curriculum


class TrainingMethods:
    """The methods of a run; each is a function of step and epoch, so that it resumes exactly.

    Args:
        options: Which there are.
        shards: Record files of the training split, whose lengths a curriculum needs.
    """

    def __init__(self, options: TrainSection, shards: Sequence[Place]):
        self._sampling = _made(ScheduledSampling, options.scheduled_sampling, "decay")
        self._self_paced = _made(SelfPaced, options.self_paced, "kind")
        self._curriculum = _made(Curriculum, options.curriculum, "growth")
        self._shards = shards

    def install(self, model: SequenceModel) -> None:
        """Make a model learn by those methods that are its own."""
        model.scheduled_sampling = self._sampling
        model.self_paced = self._self_paced

    def batch_options(self, options: BatchOptions, epoch: int) -> BatchOptions:
        """How an epoch's batches are cut, with the pairs that it admits."""
        if self._curriculum is None:
            return options
        return dataclasses.replace(options, longest=self._longest(epoch))

    def figures(self, step: int, epoch: int) -> dict[str, float]:
        """What the methods are at, to be shown.

        Args:
            step: Of the step last made, from 0.
            epoch: Of that step, from 0.
        """
        found: dict[str, float] = {}
        if self._sampling is not None:
            found["sampling_probability"] = 1.0 - float(self._sampling.right_probability(step))
        if self._curriculum is not None:
            found["admitted_length"] = self._longest(epoch)
        if self._self_paced is not None:
            found["self_paced_threshold"] = float(self._self_paced.threshold_at(epoch))
        return found

    def _longest(self, epoch: int) -> int:
        assert self._curriculum is not None
        return self._curriculum.longest(epoch, *self._range)

    @functools.cached_property
    def _range(self) -> tuple[int, int]:
        return length_range(self._shards)


def _made(method: Any, section: Any, switch: str) -> Any:
    """The method of a section's options; None where its switch is `none`."""
    options = section.model_dump()
    return None if options[switch] == "none" else method(**options)
