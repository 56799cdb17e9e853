"""Translating and aligning with a model in memory, as training and evaluation do."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from models.encoder_decoder import EncoderDecoder
from models.search.hypotheses import SearchOptions
from models.tokenizers import TextVocabulary, ragged_ids, with_begin, with_end
from pipeline.like_length import in_batches


class Translator:
    """Translates ids in batches of like length.

    Args:
        model: The model.
        target: Vocabulary of the target.
        options: The search.
        batch_size: Sentences a search.
    """

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
        self._translate = tf.function(
            self._search, input_signature=[tf.TensorSpec([None, None], tf.int32)]
        )

    def __call__(
        self, sources: Sequence[Sequence[int]], advance: Callable[[int], None] | None = None
    ) -> list[str]:
        """Translate.

        Args:
            sources: Ids of each sentence, without marks.
            advance: Told how many sentences are done, after each batch.

        Returns:
            A text for each source, in order.
        """
        lengths = [len(each) for each in sources]
        return in_batches(sources, lengths, self._batch_size, self._translate_batch, advance)

    def _translate_batch(self, sources: list[Sequence[int]]) -> list[str]:
        found = self._translate(with_end(ragged_ids(sources)).to_tensor())  # [B]
        return [text.decode("utf-8", "replace") for text in found.numpy()]

    def _search(self, source: tf.Tensor) -> tf.Tensor:
        hypotheses = self._model.translate(source, self._options)
        return self._target.decode(hypotheses.ids[:, 0, :])  # [B]


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
