"""The contract of everything that is exported."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from models.keras_recurrent import refuse_cudnn
from models.sequence_model import SequenceModel
from models.tokenizers import TextVocabulary
from serving.graph_batching import GraphBatching, batched
from serving.signatures import Signature
from serving.warmup import Request

Outputs = dict[str, tf.Tensor]


class Service(tf.Module, abc.ABC):
    """Contract of the family: graph functions from text to answers, one a signature.

    The model itself is not attached, only what the functions read: a SavedModel keeps every
    function of an attached object, also those that no server could run.

    Args:
        model: The trained model.
        *vocabularies: The vocabularies that the functions read.
    """

    declared: tuple[Signature, ...]

    def __init__(self, model: SequenceModel, *vocabularies: TextVocabulary):
        super().__init__()
        refuse_cudnn(model)  # Its operations would not run everywhere.
        self._model: Any = Unattached(model)
        self.weights = [weight.value for weight in model.weights]
        self.vocabularies = [each for some in vocabularies for each in some.resources]

    @abc.abstractmethod
    def methods(self) -> Mapping[str, Callable[..., Outputs]]:
        """The function of each declared signature, by its name; arguments are its inputs."""

    def signatures(
        self, batching: GraphBatching | None = None
    ) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """The functions, traced for any number of rows.

        Args:
            batching: How requests of one signature are run together; None runs each alone.
        """
        methods = self.methods()
        traced = {}
        for signature in self.declared:
            function = methods[signature.name]
            specs = [
                tf.TensorSpec([None] * field.rank, field.dtype, field.name)
                for field in signature.inputs
            ]
            if batching:
                function = batched(function, signature.name, specs, batching)
            traced[signature.name] = tf.function(function).get_concrete_function(
                **{spec.name: spec for spec in specs}
            )
        return traced

    def warmup_requests(self, texts: Sequence[str]) -> dict[str, list[Request]]:
        """Requests of one row each, of the shapes that real ones have.

        Args:
            texts: One for each request and signature; every string input is given it.
        """
        return {
            signature.name: [
                {field.name: self.warmup_value(field.name, text) for field in signature.inputs}
                for text in texts
            ]
            for signature in self.declared
        }

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """What a warm-up request holds of an input; members with other inputs replace it."""
        return np.array([text.encode()], object)


class Unattached:
    """Holds an object out of sight of `tf.Module`, which would attach it to the SavedModel."""

    def __init__(self, value: Any):
        self._value = value

    def __call__(self) -> Any:
        """The object."""
        return self._value


def text_of(vocabulary: TextVocabulary, ids: tf.Tensor) -> tf.Tensor:
    """Texts, string [N], of ids [N, T]."""
    return valid_text(vocabulary.decode(ids))


def valid_text(text: tf.Tensor) -> tf.Tensor:
    """Strings with whatever is not UTF-8 replaced by U+FFFD."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
