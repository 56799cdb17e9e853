"""The contract of everything that TensorBoard shows of a run."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from models.gradient_flow import LayerFlow
from pipeline.monitor.event_log import EventLog


@dataclasses.dataclass(frozen=True)
class ValidationSamples:
    """Some sentences of the validation split as the model translates them now.

    All lists have one entry a sentence.

    Attributes:
        sources: The source sentences.
        references: Their reference translations.
        hypotheses: The model's translations.
        source_tokens: The S pieces of each source as the encoder reads them.
        target_tokens: The T pieces of each hypothesis.
        alignments: For each sentence the attention, float [T, S]: a row a target piece; over a
            picture of R rows and C columns, [T, R, C].
        pictures: Uint8 [H, W, 3] of each, where sources are pictures; they have no pieces.
    """

    sources: list[str]
    references: list[str]
    hypotheses: list[str]
    source_tokens: list[list[str]]
    target_tokens: list[list[str]]
    alignments: list[np.ndarray]
    pictures: list[np.ndarray] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Observation:
    """What the trainer reports at one moment. Parts it does not report are empty.

    Attributes:
        step: Updates made so far.
        model: The model being trained, or None.
        training: Figures over the batches since the last report.
        validation: Figures over the validation split.
        samples: Answered validation sentences, or None.
        gradient_flow: Norms of the recurrent layers' Jacobians.
    """

    step: int
    model: keras.Model | None = None
    training: Mapping[str, float] = dataclasses.field(default_factory=dict)
    validation: Mapping[str, float] = dataclasses.field(default_factory=dict)
    samples: ValidationSamples | None = None
    gradient_flow: Sequence[LayerFlow] = ()


class Panel(abc.ABC):
    """One thing that TensorBoard shows.

    A panel is given every observation, looks for the part it draws, and adds it to the event
    log under the observation's step. It keeps no files and does not flush. A part that is
    empty is not an error: the panel adds nothing.
    """

    @abc.abstractmethod
    def show(self, observation: Observation, log: EventLog) -> None:
        """Add what this panel shows of an observation.

        Args:
            observation: What the trainer reports.
            log: Where to add it.
        """
