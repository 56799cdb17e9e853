"""Translating and aligning with a model in memory, as training and evaluation do."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from models.encoder_decoder import EncoderDecoder
from models.tokenizers import TextVocabulary, ragged_ids, with_begin, with_end
from pipeline.writer import Writer


class Translator(Writer[Sequence[int]]):
    """Translates sentences, given as ids without marks."""

    doing = "translating"
    unit = "sentences"

    @property
    def packed(self) -> tf.TensorSpec:
        """Ids [B, S]."""
        return tf.TensorSpec([None, None], tf.int32)

    def pack(self, sources: list[Sequence[int]]) -> tf.Tensor:
        """Ids, end mark last, padded."""
        return with_end(ragged_ids(sources)).to_tensor()

    def length(self, source: Sequence[int]) -> int:
        """Pieces."""
        return len(source)


def align(
    model: EncoderDecoder,
    source_vocabulary: TextVocabulary,
    target_vocabulary: TextVocabulary,
    sources: Sequence[Sequence[int]],
    texts: Sequence[str],
) -> list[tuple[list[str], list[str], np.ndarray]]:
    """Soft alignments of sources and given translations.

    Args:
        model: The model.
        source_vocabulary: Of the source.
        target_vocabulary: Of the target.
        sources: Ids, without marks.
        texts: A translation of each.

    Returns:
        For each, the source pieces [S], the target pieces [T] and the attention [T, S], end
        marks included.
    """
    ids = target_vocabulary.encode(tf.constant(list(texts)))  # [B, (T)]
    source = with_end(ragged_ids(sources)).to_tensor()  # [B, S]
    labels = with_end(ids).to_tensor()  # [B, T]
    weights = model.force(source, with_begin(ids).to_tensor(), labels).weights  # [B, T, S]
    source_pieces = source_vocabulary.pieces(source).numpy()
    target_pieces = target_vocabulary.pieces(labels).numpy()
    outcome = []
    for row, each in enumerate(weights.numpy()):
        from_pieces = [piece.decode() for piece in source_pieces[row] if piece]
        to_pieces = [piece.decode() for piece in target_pieces[row] if piece]
        outcome.append((from_pieces, to_pieces, each[: len(to_pieces), : len(from_pieces)]))
    return outcome
