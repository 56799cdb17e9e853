"""What searches take and give."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

# tokens [B, K], state -> logits float32 [B, K, V], state. A state is any nested structure of
# tensors that start with [B, K].
NextWord = Callable[[tf.Tensor, Any], tuple[tf.Tensor, Any]]
# Which R of B sentences are left, int32 [R] -> the step over these alone.
NextWordOf = Callable[[tf.Tensor], NextWord]


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Attributes:
        kind: A key of `models.search.methods.SEARCHES`.
        beam_size: Hypotheses K kept of a sentence; greedy keeps one.
        length_penalty: Power a of `((5 + length) / 6) ** a`, which divides log probabilities
            (Wu et al. 2016, section 7). Lengths count the end mark.
        coverage_penalty: Weight b of what a score loses by source positions that had little
            attention (same section); states are then `models.search.coverage.Covered`.
        no_repeat_ngram_size: Words of n-grams that a hypothesis holds once at most; 0 for any.
        min_length: Words at least, end mark aside, as far as the maximum allows.
        nbest: Hypotheses returned; at most `beam_size`.
        max_length_factor: With `max_length_extra`, words at most: factor times source words
            plus extra, end mark aside.
        max_length_extra: See there.
        temperature: Divides logits before words are drawn (sampling).
        top_k: Words that are drawn from at most, the likeliest ones; 0 for all (sampling).
        top_p: Joint probability of the likeliest words that are drawn from (sampling).
        seed: Of the draws (sampling).
    """

    kind: str = "beam"
    beam_size: int = 5
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    min_length: int = 0
    nbest: int = 1
    max_length_factor: float = 2.0
    max_length_extra: int = 10
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    @property
    def width(self) -> int:
        """Hypotheses kept of a sentence."""
        return self.beam_size if self.kind == "beam" else 1


class SearchLimits(NamedTuple):
    """Bounds of a search, per sentence, so that no sentence depends on its batch."""

    max_words: tf.Tensor  # [B], int32: words at most, end mark aside
    min_words: tf.Tensor | None = None  # [B], int32: words at least; 0 if None
    prefix: tf.Tensor | None = None  # [B, P], int32: words to begin with, padded with 0

    def with_prefix(self, prefix: tf.Tensor) -> "SearchLimits":
        """Limits of hypotheses that begin with given words, int32 [B, P], whatever the most is."""
        lengths = tf.math.count_nonzero(prefix, 1, dtype=tf.int32)  # [B]
        return self._replace(max_words=tf.maximum(self.max_words, lengths), prefix=prefix)

    def of(self, rows: tf.Tensor) -> "SearchLimits":
        """Limits of some sentences, int32 [R]."""
        return SearchLimits(*[None if part is None else tf.gather(part, rows) for part in self])

    @classmethod
    def from_source(cls, lengths: tf.Tensor, options: SearchOptions) -> "SearchLimits":
        """Limits from source lengths, int32 [B], end mark aside; nothing translates to nothing."""
        factor = tf.cast(tf.cast(lengths, tf.float32) * options.max_length_factor, tf.int32)
        words = factor + options.max_length_extra  # [B]
        most = tf.where(lengths > 0, words, tf.zeros_like(words))  # [B]
        return cls._of_most(most, options)

    @classmethod
    def without_source(cls, rows: tf.Tensor, options: SearchOptions) -> "SearchLimits":
        """Limits of B rows, int32 [], whose sources have no words: `max_length_extra` alone."""
        return cls._of_most(tf.fill([rows], options.max_length_extra), options)

    @classmethod
    def _of_most(cls, most: tf.Tensor, options: SearchOptions) -> "SearchLimits":
        if not options.min_length:
            return cls(most)
        return cls(most, tf.fill(tf.shape(most), options.min_length))


class Hypotheses(NamedTuple):
    """The N best hypotheses of each sentence, best first.

    Where fewer than N were finished, the rest have score -inf and length 0.
    """

    ids: tf.Tensor  # [B, N, L], int32: words, end mark included, padded with 0
    lengths: tf.Tensor  # [B, N], int32: words, end mark included
    scores: tf.Tensor  # [B, N], float32: log probability over length penalty, and coverage
    log_probabilities: tf.Tensor  # [B, N], float32: sum over words and end mark


def length_penalty(length: tf.Tensor, power: float) -> tf.Tensor:
    """`((5 + length) / 6) ** power`, float32, of lengths that count the end mark."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, power)
