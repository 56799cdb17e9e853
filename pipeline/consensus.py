"""CIDEr and ROUGE-L: scores of captions against several references each.

Texts are compared as lower-case words without punctuation. CIDEr's words are not stemmed, as
they are not in the evaluation of COCO either.
"""

import collections
import math
import re
from collections.abc import Sequence

import numpy as np

LONGEST = 4  # words of an n-gram

Ngram = tuple[str, ...]
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SIGMA = 6.0
_BETA = 1.2


def words_of(text: str) -> list[str]:
    """Lower-case words of a text."""
    return _WORD.findall(text.lower())


def cider(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], clipped: bool = False
) -> list[float]:
    """CIDEr of each caption (Vedantam et al. 2015, section 3).

    The mean over n of 1 to 4, and over references, of the cosine of the n-grams' TF-IDF vectors.
    An n-gram's inverse document frequency is log(pictures / pictures with a reference that has
    it), so that a set of one picture scores 0.

    Args:
        hypotheses: A caption a picture.
        references: One or more for each.
        clipped: CIDEr-D (section 5), which is harder to game: counts no higher than the
            reference's, a penalty `exp(-(difference of lengths)² / 72)`, and ten times the value.

    Returns:
        A score a picture, 0 to 1, or 0 to 10 if clipped.
    """
    counted = [[_ngrams(words_of(text)) for text in texts] for texts in references]
    weights = _inverse_frequencies(counted)
    # What no reference has counts as rare as what one has.
    weights = collections.defaultdict(lambda: math.log(len(counted)), weights)
    scores = []
    for hypothesis, texts in zip(hypotheses, counted, strict=True):
        own = _ngrams(words_of(hypothesis))
        found = [_similarity(own, each, weights, clipped) for each in texts]
        scores.append(float(np.mean(found)) * (10.0 if clipped else 1.0))
    return scores


def rouge_l(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """ROUGE-L of each caption (Lin 2004, section 3), 0 to 1.

    `F = (1 + β²) P R / (R + β² P)` of the longest common subsequence's share P of the caption
    and R of the reference, each the best over references, with β = 1.2, as the evaluation of COCO
    has it.

    Args:
        hypotheses: A caption a picture.
        references: One or more for each.
    """
    return [
        _rouge_l(words_of(hypothesis), [words_of(text) for text in texts])
        for hypothesis, texts in zip(hypotheses, references, strict=True)
    ]


def _ngrams(words: Sequence[str]) -> list[collections.Counter[Ngram]]:
    """Counts of the n-grams, an entry an n from 1 on."""
    return [
        collections.Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))
        for n in range(1, LONGEST + 1)
    ]


def _inverse_frequencies(
    counted: Sequence[Sequence[list[collections.Counter[Ngram]]]],
) -> dict[Ngram, float]:
    pictures: collections.Counter[Ngram] = collections.Counter()
    for texts in counted:
        pictures.update({ngram for text in texts for counts in text for ngram in counts})
    return {ngram: math.log(len(counted) / count) for ngram, count in pictures.items()}


def _similarity(
    own: list[collections.Counter[Ngram]],
    other: list[collections.Counter[Ngram]],
    weights: dict[Ngram, float],
    clipped: bool,
) -> float:
    """Mean over n of the cosine of two texts.

    Term frequencies are counts: their sum divides both sides of a cosine and falls out of it.
    """
    total = 0.0
    for mine, theirs in zip(own, other, strict=True):
        left = {ngram: count * weights[ngram] for ngram, count in mine.items()}
        right = {ngram: count * weights[ngram] for ngram, count in theirs.items()}
        norms = math.hypot(*left.values()) * math.hypot(*right.values())
        if norms:
            shared = left.keys() & right.keys()
            cut = min if clipped else (lambda value, _: value)
            total += sum(cut(left[each], right[each]) * right[each] for each in shared) / norms
    difference = own[0].total() - other[0].total()
    penalty = math.exp(-(difference**2) / (2 * _SIGMA**2)) if clipped else 1.0
    return penalty * total / LONGEST


def _rouge_l(words: list[str], references: list[list[str]]) -> float:
    common = [_common_subsequence(words, each) for each in references]
    precision = max(common) / max(len(words), 1)
    recall = max(
        length / max(len(each), 1) for length, each in zip(common, references, strict=True)
    )
    if not precision or not recall:
        return 0.0
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    before = [0] * (len(right) + 1)
    for word in left:
        row = [0]
        for place, other in enumerate(right):
            row.append(before[place] + 1 if word == other else max(before[place + 1], row[-1]))
        before = row
    return before[-1]
