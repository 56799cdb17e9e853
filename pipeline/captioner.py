"""Captioning with a model in memory, as training and evaluation do."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.captioning import CaptioningModel
from models.search.hypotheses import SearchOptions
from models.tokenizers import TextVocabulary, with_begin, with_end
from pipeline.batches import Pairs
from pipeline.like_length import in_batches


class Picture(NamedTuple):
    """A picture of a split with all its captions."""

    name: str
    features: np.ndarray  # [R, C, F]
    references: list[str]


def pictures_of(pairs: Pairs) -> list[Picture]:
    """The different pictures of some pairs, in the order in which they come."""
    found: dict[tuple[str, int], Picture] = {}
    for name, features, caption in zip(pairs.sources, pairs.pictures, pairs.targets, strict=True):
        # Pictures of different folders may have one name.
        key = name, hash(features.tobytes())
        found.setdefault(key, Picture(name, features, [])).references.append(caption)
    return list(found.values())


class Captioner:
    """Captions pictures by a search.

    Args:
        model: The model.
        captions: Vocabulary of captions.
        options: The search.
        batch_size: Pictures a search.
    """

    def __init__(
        self,
        model: CaptioningModel,
        captions: TextVocabulary,
        options: SearchOptions,
        batch_size: int,
    ):
        self._model = model
        self._captions = captions
        self._options = options
        self._batch_size = batch_size
        self._caption = tf.function(
            self._search, input_signature=[tf.TensorSpec([None] * 4, tf.float32)]
        )

    def __call__(
        self, pictures: Sequence[Picture], advance: Callable[[int], None] | None = None
    ) -> list[str]:
        """Caption.

        Args:
            pictures: The pictures.
            advance: Told how many are done, after each batch.

        Returns:
            A caption for each, in order.
        """

        def batch(some: list[Picture]) -> list[str]:
            found = self._caption(np.stack([each.features for each in some])).numpy()
            return [text.decode("utf-8", "replace") for text in found]

        return in_batches(pictures, [0] * len(pictures), self._batch_size, batch, advance)

    def _search(self, features: tf.Tensor) -> tf.Tensor:
        hypotheses = self._model.caption(features, self._options)
        return self._captions.decode(hypotheses.ids[:, 0, :])  # [B]


def attend(
    model: CaptioningModel,
    captions: TextVocabulary,
    pictures: Sequence[Picture],
    texts: Sequence[str],
) -> list[tuple[list[str], list[str], np.ndarray]]:
    """Attention of given captions over their pictures.

    Returns:
        For each, names of the cells as `row,column` [S], the caption's pieces [T] and the
        attention [T, S], end mark included.
    """
    features = np.stack([each.features for each in pictures])  # [B, R, C, F]
    ids = captions.encode(tf.constant(list(texts)))  # [B, (T)]
    labels = with_end(ids).to_tensor()  # [B, T]
    weights = model.force(features, with_begin(ids).to_tensor(), labels).weights.numpy()
    cells = [f"{row},{column}" for row, column in np.ndindex(features.shape[1:3])]
    outcome = []
    for pieces, each in zip(captions.pieces(labels).numpy(), weights, strict=True):
        told = [piece.decode() for piece in pieces if piece]
        outcome.append((cells, told, each[: len(told)]))
    return outcome
