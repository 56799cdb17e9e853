"""Scores of labels and tags against the right ones, by scikit-learn."""

import dataclasses
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

# More columns than that no terminal shows; the whole table is among the scores in any case.
_MOST_COLUMNS = 12


@dataclasses.dataclass(frozen=True)
class LabelScore:
    """How well one label is told from the others.

    Attributes:
        label: The label.
        precision: Share of its predictions that are right.
        recall: Share of its examples that are found.
        f1: Harmonic mean of both.
        count: Its examples.
    """

    label: str
    precision: float
    recall: float
    f1: float
    count: int


@dataclasses.dataclass(frozen=True)
class LabelScores:
    """Scores of a set of predictions.

    Attributes:
        count: Examples.
        accuracy: Share that is right.
        macro_f1: Mean of the labels' F1, the rare ones counting as much as the common.
        labels: A score a label, in alphabetical order: all that came or were predicted.
        confusion: A row a right label, a column a predicted one, both as in `labels`.
    """

    count: int
    accuracy: float
    macro_f1: float
    labels: tuple[LabelScore, ...]
    confusion: tuple[tuple[int, ...], ...]

    def table(self, console: Console, unit: str) -> None:
        """Print the labels' scores, the commonest first.

        Args:
            console: Where.
            unit: What is labelled, in the plural.
        """
        title = f"{self.count:,} {unit}: accuracy {self.accuracy:.2%}, macro-F1 {self.macro_f1:.2%}"
        table = Table("label", title=title, title_justify="left")
        for heading in (unit, "precision", "recall", "F1"):
            table.add_column(heading, justify="right")
        for score in sorted(self.labels, key=lambda each: -each.count):
            shares = (f"{value:.2%}" for value in (score.precision, score.recall, score.f1))
            table.add_row(escape(score.label), f"{score.count:,}", *shares)
        console.print(table)

    def confusion_table(self, console: Console) -> None:
        """Print what was taken for what, if the labels are few."""
        if len(self.labels) > _MOST_COLUMNS:
            return
        table = Table("right label", title="Predicted as", title_justify="left")
        for score in self.labels:
            table.add_column(escape(score.label), justify="right")
        for score, row in zip(self.labels, self.confusion, strict=True):
            table.add_row(escape(score.label), *(f"{number:,}" for number in row))
        console.print(table)


def score_labels(expected: Sequence[str], predicted: Sequence[str]) -> LabelScores:
    """Score predictions.

    Args:
        expected: The right labels, at least one.
        predicted: What was predicted for each.
    """
    # Scikit-learn takes a second to import, and only evaluations need it.
    from sklearn import metrics

    labels = sorted({*expected, *predicted})
    precision, recall, f1, count = metrics.precision_recall_fscore_support(
        expected, predicted, labels=labels, zero_division=0.0
    )
    confusion = metrics.confusion_matrix(expected, predicted, labels=labels)
    scores = zip(labels, precision, recall, f1, count, strict=True)
    return LabelScores(
        count=len(expected),
        accuracy=float(metrics.accuracy_score(expected, predicted)),
        macro_f1=float(f1.mean()),
        labels=tuple(
            LabelScore(label, float(p), float(r), float(f), int(n)) for label, p, r, f, n in scores
        ),
        confusion=tuple(tuple(int(number) for number in row) for row in confusion),
    )
