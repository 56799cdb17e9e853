"""Scores of texts that were read from lips: error rates of characters and words, and chrF."""

import dataclasses
from collections.abc import Sequence

import rich.console
import rich.table

from pipeline.scoring import bleu_and_chrf


@dataclasses.dataclass(frozen=True)
class LipScores:
    """Scores over all clips of a set.

    Attributes:
        clips: How many.
        right: Share of them whose text is the reference to the letter.
        character_error_rate: Edits of characters, over characters of the references.
        word_error_rate: Likewise of words.
        chrf: chrF2, in points.
    """

    clips: int
    right: float
    character_error_rate: float
    word_error_rate: float
    chrf: float

    def table(self, console: rich.console.Console) -> None:
        """Print them."""
        table = rich.table.Table(title=f"{self.clips:,} clips", title_justify="left")
        table.add_column("score")
        table.add_column("value", justify="right")
        table.add_row("right to the letter", f"{self.right:.1%}")
        table.add_row("character error rate", f"{self.character_error_rate:.1%}")
        table.add_row("word error rate", f"{self.word_error_rate:.1%}")
        table.add_row("chrF2", f"{self.chrf:.1f}")
        console.print(table)


def score_lips(hypotheses: Sequence[str], references: Sequence[str]) -> LipScores:
    """Score texts.

    Args:
        hypotheses: What was read.
        references: What was said.

    Raises:
        UserError: If there are none.
    """
    chrf = bleu_and_chrf(hypotheses, references)["chrf"]
    pairs = list(zip(hypotheses, references, strict=True))
    return LipScores(
        clips=len(pairs),
        right=sum(found.strip() == said.strip() for found, said in pairs) / len(pairs),
        character_error_rate=error_rate(pairs),
        word_error_rate=error_rate([(found.split(), said.split()) for found, said in pairs]),
        chrf=chrf,
    )


def error_rate(pairs: Sequence[tuple[Sequence, Sequence]]) -> float:
    """Edits that turn what was found into what was said, over the length of all that was said."""
    return sum(edits(*pair) for pair in pairs) / max(sum(len(said) for _, said in pairs), 1)


def edits(found: Sequence, said: Sequence) -> int:
    """Fewest insertions, deletions and replacements (Levenshtein 1966)."""
    before = list(range(len(said) + 1))
    for row, one in enumerate(found, 1):
        now = [row]
        for column, other in enumerate(said, 1):
            change = before[column - 1] + (one != other)
            now.append(min(change, before[column] + 1, now[-1] + 1))
        before = now
    return before[-1]
