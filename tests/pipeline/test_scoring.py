"""Scores against values computed here from the definitions, and by hand."""

import collections
import io
import json
import math

import pytest
from rich.console import Console

from models.errors import UserError
from pipeline import scoring
from pipeline.scoring import bleu_and_chrf, score_translations, tokenizer_for

HYPOTHESES = [
    "the cat sat on the mat today",
    "a dog runs through the green park",
    "we open the file and close the window again",
]
REFERENCES = [
    "the cat sat on a mat today",
    "the dog ran quickly through the park",
    "we open the file then we close the window again and again",
]


def ngrams(items, order):
    return collections.Counter(
        tuple(items[start : start + order]) for start in range(len(items) - order + 1)
    )


def bleu_by_definition(hypotheses, references):
    """Papineni et al. 2002, over words; every order must have a match."""
    logs = []
    for order in range(1, 5):
        matched = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            found = ngrams(hypothesis.split(), order)
            matched += sum((found & ngrams(reference.split(), order)).values())
            total += sum(found.values())
        logs.append(math.log(matched / total))
    length = sum(len(each.split()) for each in hypotheses)
    wanted = sum(len(each.split()) for each in references)
    return 100 * min(1.0, math.exp(1 - wanted / length)) * math.exp(sum(logs) / 4)


def chrf_by_definition(hypothesis, reference):
    """Popović 2015: mean precision and recall of 1- to 6-grams of letters, beta 2."""
    hypothesis, reference = hypothesis.replace(" ", ""), reference.replace(" ", "")
    precisions, recalls = [], []
    for order in range(1, 7):
        found, wanted = ngrams(hypothesis, order), ngrams(reference, order)
        matched = sum((found & wanted).values())
        precisions.append(matched / sum(found.values()))
        recalls.append(matched / sum(wanted.values()))
    precision, recall = sum(precisions) / 6, sum(recalls) / 6
    return 100 * 5 * precision * recall / (4 * precision + recall)


def test_bleu_by_hand():
    # Matches of 7 words: 6/7 words, 4/6 pairs, 2/5 triples, 1/4 quadruples; equal lengths.
    expected = 100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25
    scores = score_translations(HYPOTHESES[:1], REFERENCES[:1], [7])
    assert scores.bleu.value == pytest.approx(expected)
    assert expected == pytest.approx(48.892, abs=1e-3)


def test_bleu_and_chrf_by_definition():
    scores = score_translations(HYPOTHESES, REFERENCES, [7, 7, 9])
    assert scores.bleu.value == pytest.approx(bleu_by_definition(HYPOTHESES, REFERENCES))
    for hypothesis, reference in zip(HYPOTHESES, REFERENCES, strict=True):
        one = score_translations([hypothesis], [reference], [7])
        assert one.chrf.value == pytest.approx(chrf_by_definition(hypothesis, reference))


def test_ter_by_hand():
    # One of seven words is to be replaced.
    scores = score_translations(HYPOTHESES[:1], REFERENCES[:1], [7])
    assert scores.ter.value == pytest.approx(100 / 7)


def test_equal_sentences_score_full():
    scores = score_translations(REFERENCES, REFERENCES, [5, 5, 5])
    assert scores.bleu.value == pytest.approx(100.0)
    assert scores.chrf.value == pytest.approx(100.0)
    assert scores.ter.value == 0.0


def test_sentences_with_nothing_in_common_score_zero():
    scores = score_translations(["aaa bbb ccc ddd"], ["xxx yyy zzz vvv"], [4])
    assert scores.bleu.value == 0.0
    assert scores.chrf.value == 0.0
    assert scores.ter.value == pytest.approx(100.0)


def test_empty_translations_are_scored():
    scores = score_translations(["", ""], REFERENCES[:2], [5, 5])
    assert scores.bleu.value == 0.0
    assert scores.ter.value == pytest.approx(100.0)


def test_chinese_is_scored_by_characters():
    # Two of six characters are to be replaced.
    scores = score_translations(["猫坐在垫子上"], ["猫坐在地毯上"], [5], tokenize="zh")
    assert scores.ter.value == pytest.approx(100 * 2 / 6)
    spaced = bleu_by_definition(["猫 坐 在 垫 子 上 了 吗"], ["猫 坐 在 垫 子 上 没 有"])
    scores = score_translations(["猫坐在垫子上了吗"], ["猫坐在垫子上没有"], [5], tokenize="zh")
    assert scores.bleu.value == pytest.approx(spaced)
    assert "tok:zh" in scores.bleu.signature
    assert "asian:yes" in scores.ter.signature
    assert "norm:yes" in scores.ter.signature


def test_signatures_tell_how_scores_were_computed():
    scores = score_translations(HYPOTHESES, REFERENCES, [7, 7, 9])
    assert "tok:13a" in scores.bleu.signature
    assert "nc:6" in scores.chrf.signature
    assert "asian:no" in scores.ter.signature
    for score in (scores.bleu, scores.chrf, scores.ter):
        assert "version:" in score.signature
    assert [scores.bleu.name, scores.chrf.name, scores.ter.name] == ["BLEU", "chrF2", "TER"]


def test_sentences_fall_into_buckets_by_source_length():
    lengths = [0, 1, 10, 11, 20, 21, 30, 31, 50, 51, 400]
    scores = score_translations(["a b c d"] * 11, ["a b c d"] * 11, lengths)
    assert [(bucket.name, bucket.sentences) for bucket in scores.buckets] == [
        ("1–10", 3),
        ("11–20", 2),
        ("21–30", 2),
        ("31–50", 2),
        ("51+", 2),
    ]


def test_each_bucket_has_the_bleu_of_its_sentences():
    scores = score_translations(HYPOTHESES, REFERENCES, [5, 60, 8])
    short = bleu_by_definition([HYPOTHESES[0], HYPOTHESES[2]], [REFERENCES[0], REFERENCES[2]])
    assert scores.buckets[0].bleu == pytest.approx(short)
    assert [bucket.bleu for bucket in scores.buckets[1:4]] == [None, None, None]
    assert scores.buckets[4].bleu < scores.bleu.value < short


def test_scores_become_json():
    scores = score_translations(HYPOTHESES, REFERENCES, [5, 60, 8])
    told = json.loads(scores.to_json())
    assert told["sentences"] == 3
    assert told["bleu"]["value"] == scores.bleu.value
    assert told["ter"]["signature"] == scores.ter.signature
    assert told["buckets"][4] == {
        "first": 51,
        "last": None,
        "sentences": 1,
        "bleu": scores.buckets[4].bleu,
    }


def test_scores_become_a_table():
    scores = score_translations(HYPOTHESES, REFERENCES, [5, 60, 8])
    console = Console(file=io.StringIO(), width=120)
    scores.table(console)
    printed = console.file.getvalue()
    for part in (f"{scores.bleu.value:.1f}", scores.chrf.signature, "TER", "51+", "–"):
        assert part in printed


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("ZH_Hant", "zh"),
        ("ja", "ja-mecab"),
        ("ko", "ko-mecab"),
        ("en", "13a"),
        ("de", "13a"),
        ("target", "13a"),
    ],
)
def test_languages_have_their_tokenizers(language, tokenizer):
    assert tokenizer_for(language) == tokenizer


@pytest.mark.parametrize(
    ("hypotheses", "references", "lengths", "message"),
    [
        ([], [], [], "nothing to score"),
        (["a"], [], [1], "1 hypotheses, 0 references, 1 source lengths; expected as many"),
        (["a"], ["a"], [1, 2], "1 hypotheses, 1 references, 2 source lengths"),
    ],
)
def test_wrong_numbers_of_sentences_are_a_users_mistake(hypotheses, references, lengths, message):
    with pytest.raises(UserError, match=message):
        score_translations(hypotheses, references, lengths)


@pytest.mark.parametrize("tokenizer", ["flores200", "spm", "flores101", "klingon"])
def test_tokenizers_that_download_are_refused(tokenizer):
    with pytest.raises(UserError, match=f"'{tokenizer}'; expected one of 13a"):
        score_translations(["a"], ["a"], [1], tokenize=tokenizer)


@pytest.mark.parametrize(("tokenizer", "extra"), [("ja-mecab", "ja"), ("ko-mecab", "ko")])
def test_missing_extras_are_named(monkeypatch, tokenizer, extra):
    def without_packages(**_):
        raise RuntimeError("requires extra dependencies")

    monkeypatch.setattr(scoring.sacrebleu, "BLEU", without_packages)
    with pytest.raises(UserError, match=rf"pip install 'sacrebleu\[{extra}\]'"):
        score_translations(["a"], ["a"], [1], tokenize=tokenizer)


def test_validations_in_training_get_the_same_scores():
    scores = score_translations(HYPOTHESES, REFERENCES, [7, 7, 9])
    assert bleu_and_chrf(HYPOTHESES, REFERENCES) == {
        "bleu": scores.bleu.value,
        "chrf": scores.chrf.value,
    }
    with pytest.raises(UserError, match="nothing to score"):
        bleu_and_chrf([], [])
