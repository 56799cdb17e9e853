"""Scores of captions, against values worked out by hand."""

import io
import math

import pytest
import rich.console
import sacrebleu

from models.errors import UserError
from pipeline.caption_scoring import score_captions
from pipeline.consensus import cider, rouge_l, words_of


def test_cider_is_that_of_an_example_worked_by_hand():
    # Two pictures, so an n-gram of one has the weight w = log 2, one of both 0.
    references = [["A cat sits.", "a cat"], ["a dog"]]
    # Unigrams: "a" 0; cat, sits, dog w. Bigrams: "a cat", "cat sits", "a dog" w. Trigrams:
    # "a cat sits" w. Against "a cat sits": unigrams (cat 1)·(cat 1, sits 1) = 1/√2; bigrams
    # ("a cat")·("a cat", "cat sits") = 1/√2; none longer. Against "a cat": 1 and 1.
    first = ((2 / math.sqrt(2)) / 4 + 2 / 4) / 2
    # "cat dog" against "a dog": unigrams (cat, dog)·(dog) = 1/√2, no common bigram.
    second = (1 / math.sqrt(2)) / 4
    assert cider(["A cat!", "cat dog"], references) == pytest.approx([first, second])


def test_cider_d_clips_counts_and_punishes_other_lengths():
    references = [["a cat"], ["a dog"]]
    # Unigrams: cat 3w against w, clipped to w: w · w / (3w · w) = 1/3 (a weighs nothing). The
    # bigram "a cat" is unlike "cat cat" (twice), of weight w too: 1 / √(1 + 4). Two words more.
    value = 10 * math.exp(-4 / 72) * (1 / 3 + 1 / math.sqrt(5)) / 4
    found = cider(["a cat cat cat", "a dog"], references, clipped=True)
    # What equals its reference gets all that n-grams of its length can give.
    assert found == pytest.approx([value, 10 * 2 / 4])
    plain = cider(["a cat cat cat", "a dog"], references)
    assert plain[0] == pytest.approx((1 + 1 / math.sqrt(5)) / 4)


def test_cider_of_one_picture_or_of_nothing_is_zero():
    assert cider(["a cat"], [["a cat"]]) == [0.0]
    assert cider(["", "a dog"], [["a cat"], [""]]) == [0.0, 0.0]


def test_rouge_l_is_that_of_the_definition():
    # "police killed the gunman" and "police kill the gunman" share 3 of 4 in order.
    assert rouge_l(["police kill the gunman"], [["Police killed the gunman."]]) == [0.75]
    # Precision 2/2 by the first reference, recall 2/4 by it and 1/1 by the second.
    both = rouge_l(["a cat"], [["a big fat cat", "cat"]])
    assert both == [pytest.approx((1 + 1.44) * 1.0 * 1.0 / (1.0 + 1.44))]
    one = rouge_l(["a cat"], [["a big fat cat"]])
    assert one == [pytest.approx(2.44 * 0.5 / (0.5 + 1.44))]
    assert rouge_l(["", "dog"], [["a"], ["cat"]]) == [0.0, 0.0]


def test_words_are_lower_case_without_punctuation():
    assert words_of("A man's dog, re-tied: «Été» 3.") == [
        "a",
        "man's",
        "dog",
        "re",
        "tied",
        "été",
        "3",
    ]


def test_all_scores_with_several_references():
    hypotheses = ["A cat sits on the mat.", "two dogs run in the park"]
    references = [["a cat sits on the mat.", "The mat has a cat."], ["dogs run in a park"]]
    scores = score_captions(hypotheses, references)
    streams = [["a cat sits on the mat.", "dogs run in a park"], ["The mat has a cat.", None]]
    for order, score in enumerate(scores.bleu, 1):
        metric = sacrebleu.BLEU(lowercase=True, max_ngram_order=order)
        assert score.value == metric.corpus_score(hypotheses, streams).score
        assert score.name == f"BLEU-{order}" and "nrefs:var" in score.signature
    assert scores.bleu[0].value > scores.bleu[3].value
    assert 0 < scores.chrf.value < 100 and 0 < scores.rouge_l.value < 100
    assert scores.cider.value == pytest.approx(50 * sum(cider(hypotheses, references)))
    printed = io.StringIO()
    scores.table(rich.console.Console(file=printed, width=120))
    for name in ("2 pictures", "BLEU-1", "BLEU-4", "chrF2", "ROUGE-L", "CIDEr", "CIDEr-D"):
        assert name in printed.getvalue()


def test_what_cannot_be_scored_is_told():
    with pytest.raises(UserError, match="1 captions and references of 2 pictures"):
        score_captions(["a"], [["a"], ["b"]])
    with pytest.raises(UserError, match="picture 2 of 2 has no reference"):
        score_captions(["a", "b"], [["a"], []])
    with pytest.raises(UserError, match="0 captions"):
        score_captions([], [])
