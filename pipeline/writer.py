"""Texts for many sources by a model in memory, as training and evaluation want them."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import tensorflow as tf

from models.encoder_decoder import EncoderDecoder
from models.search.hypotheses import SearchOptions
from models.tokenizers import TextVocabulary
from pipeline.assembly import search_options
from pipeline.experiment import Experiment
from pipeline.questions import Questions

Item = TypeVar("Item")


class Writer(abc.ABC, Generic[Item]):
    """Contract of the family: a text for each source, by one search a batch of like length.

    Members say what tensor some sources are, and what the model takes of it; what writing is
    called, such as `translating`, and what a source is, in the plural.

    Args:
        model: The model.
        target: Vocabulary of the texts.
        options: The search.
        batch_size: Sources a search.
    """

    doing: ClassVar[str]
    unit: ClassVar[str]

    def __init__(
        self,
        model: EncoderDecoder,
        target: TextVocabulary,
        options: SearchOptions,
        batch_size: int,
    ):
        self._model = model
        self._target = target
        self._options = options
        self._batch_size = batch_size
        self._write = tf.function(self._search, input_signature=[self.packed])

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        model: EncoderDecoder,
        target: TextVocabulary,
        **changes: int | str,
    ) -> Self:
        """One that searches as an experiment says, but for fields of `SearchOptions`."""
        options = search_options(experiment, **changes)
        return cls(model, target, options, experiment.search.batch_size)

    def questions(self, sources: Sequence[Item]) -> Questions:
        """Sources as questions, whose answers are their texts."""
        lengths = [self.length(each) for each in sources]
        return Questions.of_like_length(
            sources, lengths, self._batch_size, self._batch, self.doing, self.unit
        )

    @property
    @abc.abstractmethod
    def packed(self) -> Any:
        """What `pack` gives of any number of sources, as `tf.TensorSpec`s."""

    @abc.abstractmethod
    def pack(self, sources: list[Item]) -> Any:
        """A tensor or array of some sources, [B, ...], or a dict of such."""

    @abc.abstractmethod
    def length(self, source: Item) -> int:
        """By which sources are put together."""

    def read(self, packed: Any) -> Any:
        """What the model takes of what was packed."""
        return packed

    def _batch(self, sources: list[Item]) -> list[str]:
        found = self._write(self.pack(sources)).numpy()  # [B]
        return [text.decode("utf-8", "replace") for text in found]

    def _search(self, packed: Any) -> tf.Tensor:
        hypotheses = self._model.translate(self.read(packed), self._options)
        return self._target.decode(hypotheses.ids[:, 0, :])  # [B]
