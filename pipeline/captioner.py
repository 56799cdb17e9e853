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
from pipeline.prepare.picture_files import StoredPicture


class Picture(NamedTuple):
    """A picture of a split with all its captions."""

    name: str
    stored: StoredPicture
    references: list[str]


def pictures_of(pairs: Pairs) -> list[Picture]:
    """The different pictures of some pairs, in the order in which they come."""
    found: dict[StoredPicture, Picture] = {}
    for name, stored, caption in zip(pairs.sources, pairs.pictures, pairs.targets, strict=True):
        found.setdefault(stored, Picture(name, stored, [])).references.append(caption)
    return list(found.values())


def read_all(model: CaptioningModel, pictures: Sequence[Picture]) -> np.ndarray:
    """What a model reads of pictures, [B, ...]."""
    return np.stack([each.stored.read(model.reads) for each in pictures])


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
            self._search,
            input_signature=[
                tf.TensorSpec([None] * 4, tf.uint8 if model.reads == "pixels" else tf.float32)
            ],
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
            found = self._caption(read_all(self._model, some)).numpy()
            return [text.decode("utf-8", "replace") for text in found]

        return in_batches(pictures, [0] * len(pictures), self._batch_size, batch, advance)

    def _search(self, pictures: tf.Tensor) -> tf.Tensor:
        hypotheses = self._model.translate(self._model.see(pictures), self._options)
        return self._captions.decode(hypotheses.ids[:, 0, :])  # [B]


def attend(
    model: CaptioningModel,
    captions: TextVocabulary,
    pictures: Sequence[Picture],
    texts: Sequence[str],
) -> list[tuple[list[str], np.ndarray]]:
    """Attention of given captions over their pictures.

    Returns:
        For each, the caption's pieces [T] and the attention [T, R, C], end mark included.
    """
    features = model.see(read_all(model, pictures))  # [B, R, C, F]
    ids = captions.encode(tf.constant(list(texts)))  # [B, (T)]
    labels = with_end(ids).to_tensor()  # [B, T]
    weights = model.force(features, with_begin(ids).to_tensor(), labels).weights.numpy()
    outcome = []
    for pieces, each in zip(captions.pieces(labels).numpy(), weights, strict=True):
        told = [piece.decode() for piece in pieces if piece]
        outcome.append((told, each[: len(told)].reshape(len(told), *features.shape[1:3])))
    return outcome
