from functools import partial

import pytest

from pipeline.experiment import Cleaning
from pipeline.prepare.cleaning import LengthRules, check_characters, check_difference
from pipeline.prepare.reasons import (
    CONTROL_CHARACTERS,
    EMPTY,
    IDENTICAL,
    INVALID_UTF8,
    LENGTH_RATIO,
    NOT_ALIGNED,
    TOO_LONG,
    Dropped,
)


def reason_of(rule, *arguments):
    try:
        rule(*arguments)
    except Dropped as dropped:
        return dropped.reason
    return None


@pytest.mark.parametrize(
    "source, reason",
    [
        ("a sentence", None),
        ("line\u2028separator", None),
        ("narrow\u202fspace, soft\u00adhyphen, \ufeff", None),
        ("👩‍👩‍👧‍👦", None),
        ("tab\tinside", CONTROL_CHARACTERS),
        ("vertical\x0btab", CONTROL_CHARACTERS),
        ("form\x0cfeed", CONTROL_CHARACTERS),
        ("carriage\rreturn", CONTROL_CHARACTERS),
        ("nul\x00", CONTROL_CHARACTERS),
        ("delete\x7f", CONTROL_CHARACTERS),
        ("next\u0085line", CONTROL_CHARACTERS),
        ("\u009fcommand", CONTROL_CHARACTERS),
        ("", EMPTY),
        (" \u00a0\u3000", EMPTY),
    ],
)
def test_rules_on_characters(source, reason):
    assert reason_of(check_characters, source.encode(), b"b") == reason
    assert reason_of(check_characters, b"b", source.encode()) == reason


@pytest.mark.parametrize("broken", [b"\xff", b"a\xc3", b"\xed\xa0\x80", "你好".encode("gbk")])
def test_what_is_not_utf8_is_dropped_before_all_else(broken):
    assert reason_of(check_characters, broken, b"") == INVALID_UTF8
    assert reason_of(check_characters, b"\x00", broken) == INVALID_UTF8


def test_identical_sides():
    assert reason_of(check_difference, b"same ", b"same") == IDENTICAL
    assert reason_of(check_difference, b"Same", b"same") is None


def test_no_pieces_is_empty():
    check = LengthRules(Cleaning()).check
    assert reason_of(check, [], [1]) == EMPTY
    assert reason_of(check, [1], []) == EMPTY
    assert reason_of(check, [1], [1]) is None


def test_a_language_model_has_no_source_and_may_keep_blank_lines():
    assert reason_of(LengthRules(Cleaning(), "language_model").check, [], [1]) is None
    assert reason_of(LengthRules(Cleaning(), "language_model").check, [], []) == EMPTY
    assert (
        reason_of(LengthRules(Cleaning(), "language_model", keep_blank=True).check, [], []) is None
    )
    assert reason_of(partial(check_characters, keep_blank=True), b" \t") is None
    assert reason_of(partial(check_characters, keep_blank=True), b"\x00") == CONTROL_CHARACTERS


def test_tagging_asks_for_a_tag_a_word_and_cuts_both_sides_alike():
    rules = LengthRules(
        Cleaning(max_source_length=3, max_target_length=2, too_long="truncate"), "tagging"
    )
    assert reason_of(rules.check, [4, 5], [6]) == NOT_ALIGNED
    assert rules.apply([4, 5, 6], [7, 8, 9]) == ([4, 5], [7, 8], True)


def test_the_ratio_is_a_rule_of_translation():
    assert LengthRules(Cleaning(), "classification").apply([4] * 50, [5]) == ([4] * 50, [5], False)


def rules(**limits):
    return LengthRules(Cleaning(max_source_length=5, max_target_length=8, **limits))


def test_too_long_is_dropped_by_side():
    assert reason_of(rules().apply, [1] * 5, [1] * 8) is None
    assert reason_of(rules().apply, [1] * 6, [1] * 6) == TOO_LONG
    assert reason_of(rules().apply, [1] * 5, [1] * 9) == TOO_LONG


def test_too_long_is_cut_if_asked():
    source, target, cut = rules(too_long="truncate").apply([1, 2, 3, 4, 5, 6], [7, 8])
    assert (source, target, cut) == ([1, 2, 3, 4, 5], [7, 8], True)
    assert rules(too_long="truncate").apply([1], [2]) == ([1], [2], False)


def test_the_ratio_is_of_the_longer_side_over_the_shorter():
    limit = rules(max_length_ratio=2.0)
    assert reason_of(limit.apply, [1] * 2, [1] * 4) is None
    assert reason_of(limit.apply, [1] * 2, [1] * 5) == LENGTH_RATIO
    assert reason_of(limit.apply, [1] * 5, [1] * 2) == LENGTH_RATIO


def test_the_ratio_is_of_the_lengths_before_cutting():
    limit = rules(max_length_ratio=2.0, too_long="truncate")
    assert reason_of(limit.apply, [1] * 11, [1] * 5) == LENGTH_RATIO
