import io

import pytest
import rich.console

from pipeline.label_scoring import score_labels

RIGHT = ["a", "a", "a", "b", "b", "[c]"]
FOUND = ["a", "a", "b", "b", "d", "a"]


def test_scores_are_those_of_the_definitions():
    scores = score_labels(RIGHT, FOUND)
    assert scores.count == 6 and scores.accuracy == pytest.approx(3 / 6)
    by_label = {each.label: each for each in scores.labels}
    assert list(by_label) == ["[c]", "a", "b", "d"]
    a, b = by_label["a"], by_label["b"]
    assert (a.precision, a.recall, a.count) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 3)
    assert (b.precision, b.recall, b.f1) == (0.5, 0.5, 0.5)
    # One never predicted and one never right count as much as the others.
    assert by_label["[c]"].f1 == by_label["d"].f1 == 0.0
    assert scores.macro_f1 == pytest.approx((2 / 3 + 1 / 2) / 4)
    assert scores.confusion == ((0, 1, 0, 0), (0, 2, 1, 0), (0, 0, 1, 1), (0, 0, 0, 0))


def test_tables_show_labels_letter_for_letter():
    console = rich.console.Console(file=io.StringIO(), width=100)
    score_labels(RIGHT, FOUND).table(console, "texts")
    score_labels(RIGHT, FOUND).confusion_table(console)
    shown = console.file.getvalue()
    assert "6 texts: accuracy 50.00%, macro-F1 29.17%" in shown
    assert shown.count("[c]") == 3
    many = [str(number) for number in range(20)]
    console = rich.console.Console(file=io.StringIO(), width=100)
    score_labels(many, many).confusion_table(console)
    assert console.file.getvalue() == ""
