"""Captioning with a model in memory, as training and evaluation do."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from models.captioning import CaptioningEnsemble, CaptioningModel
from models.tokenizers import TextVocabulary, with_begin, with_end
from pipeline.batches import Pairs
from pipeline.prepare.picture_files import StoredPicture
from pipeline.writer import Writer

AnyCaptioner: TypeAlias = CaptioningModel | CaptioningEnsemble


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


def read_all(model: AnyCaptioner, pictures: Sequence[Picture]) -> np.ndarray:
    """What a model reads of pictures, [B, ...]."""
    return np.stack([each.stored.read(model.reads) for each in pictures])


class Captioner(Writer[Picture]):
    """Captions pictures, which are all of one size."""

    doing = "captioning"
    unit = "pictures"
    _model: AnyCaptioner

    @property
    def packed(self) -> tf.TensorSpec:
        """Features [B, R, C, F], or pixels [B, S, S, 3]."""
        return tf.TensorSpec([None] * 4, tf.uint8 if self._model.reads == "pixels" else tf.float32)

    def pack(self, sources: list[Picture]) -> np.ndarray:
        """What the model reads of pictures."""
        return read_all(self._model, sources)

    def length(self, source: Picture) -> int:
        """The same for all: they stay as they are."""
        return 0

    def read(self, packed: tf.Tensor) -> tf.Tensor:
        """Their features."""
        return self._model.see(packed)


def attend(
    model: AnyCaptioner,
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
