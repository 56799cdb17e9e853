"""The contract of a task."""

import abc
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import rich.console
import tensorflow as tf

from models.encoder_decoder import EncoderDecoder
from models.ensemble import EnsembleModel
from models.sequence_model import SequenceModel
from pipeline.batch_plan import BatchOptions
from pipeline.batches import (
    Epochs,
    Marked,
    Pairs,
    count_batches,
    epoch_length,
    validation_batches,
)
from pipeline.experiment import Experiment
from pipeline.monitor.panel import ValidationSamples
from pipeline.places import Place
from pipeline.questions import Questions
from pipeline.train.validation import Losses
from pipeline.vocabularies import Vocabularies
from serving.services.contract import Service

_EPOCHS_KEPT = 64


class Validation(NamedTuple):
    """How good the model is now, as far as its losses do not tell."""

    metrics: dict[str, float]
    samples: ValidationSamples | None


class Evaluation(NamedTuple):
    """The scores of a split."""

    scores: dict[str, Any]  # JSON-like
    lines: dict[str, list[str]]  # by what they are, such as `hypothesis`: a line a record


class Judge(abc.ABC):
    """Contract: judges a model by its answers.

    What it asks and how it judges are apart, so that many workers can answer, each a share, where
    one of them judges.

    It is made once a model, so that graph functions are traced once, and sees the weights of
    the moment.
    """

    def validation_questions(self, pairs: Pairs) -> Questions:
        """What validations in training ask; nothing where the losses tell enough.

        Args:
            pairs: Of the valid split.
        """
        return Questions()

    def questions(self, pairs: Pairs) -> Questions:
        """What is asked of a whole split; nothing where the losses tell enough."""
        return Questions()

    @abc.abstractmethod
    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """Judge the answers of a validation, and answer samples with what is shown of them.

        Args:
            pairs: Of the valid split.
            answers: To `validation_questions`.
            samples: How many pairs are shown.
        """

    @abc.abstractmethod
    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """Judge the answers of a split, and print the scores as a table.

        Args:
            pairs: The split.
            answers: To `questions`.
            console: Where the table goes.
        """

    def measure(self, losses: Losses, pairs: Pairs, console: rich.console.Console) -> dict:
        """Scores that follow from a split's losses; none unless a member has some.

        Args:
            losses: Of the split.
            pairs: The split.
            console: Where a table may go.

        Returns:
            JSON-like.
        """
        return {}


class Task(abc.ABC):
    """Contract of the family: what one task adds to the stages, which are the same for all.

    Args:
        experiment: The experiment.
        vocabularies: Its vocabularies.
    """

    def __init__(self, experiment: Experiment, vocabularies: Vocabularies):
        self.experiment = experiment
        self.vocabularies = vocabularies
        # Those of all readers, while the same options hold.
        self._epochs_of = functools.lru_cache(_EPOCHS_KEPT)(self._epochs)

    @property
    def asks(self) -> dict[str, Any]:
        """What `mark` is given besides ids: `texts` or `pictures`, as of `training_batches`."""
        return {}

    @abc.abstractmethod
    def build_model(self) -> SequenceModel:
        """The model, with its variables."""

    def joined(self, members: Sequence[EncoderDecoder]) -> EnsembleModel:
        """Models of several runs, as one."""
        return EnsembleModel(members)

    @abc.abstractmethod
    def mark(self, source: tf.RaggedTensor, target: tf.RaggedTensor) -> Marked:
        """Inputs and labels of a batch.

        Args:
            source: Ids of a batch, ragged int32 [B, (S)], without marks.
            target: Likewise, [B, (T)].

        Returns:
            The inputs of the model, ragged int32 by name, and the labels, ragged int32.
        """

    @abc.abstractmethod
    def judge(self, model: SequenceModel) -> Judge:
        """A judge of the model."""

    @abc.abstractmethod
    def service(self, model: SequenceModel) -> Service:
        """What is exported of the model."""

    def warmup_texts(self, pairs: Pairs) -> list[str]:
        """What warm-up requests are made of."""
        return pairs.sources

    def training_batches(
        self, shards: Sequence[Place], options: BatchOptions, epoch: int, skip: int = 0
    ) -> tf.data.Dataset:
        """Batches of an epoch, in an order that seed and epoch decide; `skip` are left out."""
        return self._epochs_of(tuple(shards), options).batches(epoch, skip)

    def epoch_length(self, shards: Sequence[Place], options: BatchOptions, epoch: int) -> int:
        """How many batches `training_batches` gives of an epoch, by reading all records."""
        return epoch_length(shards, options, self.experiment.seed, epoch, **self.asks)

    def validation_batches(self, shards: Sequence[Place], options: BatchOptions) -> tf.data.Dataset:
        """The batches of a split, the same every time."""
        return validation_batches(shards, options, self.mark, **self.asks)

    def count_batches(self, shards: Sequence[Place], options: BatchOptions) -> int:
        """Batches of an epoch; epochs may differ by a few."""
        return count_batches(shards, options)

    def _epochs(self, shards: tuple[Place, ...], options: BatchOptions) -> Epochs:
        return Epochs(shards, options, self.mark, self.experiment.seed, **self.asks)
