"""Scores of captions against several references each."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import sacrebleu
from rich.console import Console
from rich.table import Table
from sacrebleu.metrics.base import Metric

from models.errors import UserError
from pipeline.consensus import LONGEST, cider, rouge_l
from pipeline.scoring import DEFAULT_TOKENIZER, Score


@dataclasses.dataclass(frozen=True)
class CaptionScores:
    """All scores of one set of captions.

    Attributes:
        pictures: Number of pictures.
        bleu: BLEU-1 to BLEU-4, of lower-case words.
        chrf: chrF.
        rouge_l: ROUGE-L.
        cider: CIDEr, times 100.
        cider_d: CIDEr-D, which is what others mostly call CIDEr, in its own points of 0 to 10.
    """

    pictures: int
    bleu: tuple[Score, ...]
    chrf: Score
    rouge_l: Score
    cider: Score
    cider_d: Score

    def table(self, console: Console) -> None:
        """Print the scores."""
        table = Table(title=f"{self.pictures:,} pictures", title_justify="left")
        table.add_column("score")
        table.add_column("points", justify="right")
        table.add_column("signature", overflow="fold")
        for score in (*self.bleu, self.chrf, self.rouge_l, self.cider, self.cider_d):
            table.add_row(score.name, f"{score.value:.2f}", score.signature)
        console.print(table)


def score_captions(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: str = DEFAULT_TOKENIZER,
) -> CaptionScores:
    """Score captions.

    Args:
        hypotheses: A caption a picture.
        references: One or more for each; pictures may have different numbers of them.
        tokenize: sacrebleu's tokenizer for BLEU.

    Raises:
        UserError: If there is no picture, one has no reference, or there are not as many of both.
    """
    _require_references(hypotheses, references)
    bleu = [
        sacrebleu.BLEU(lowercase=True, tokenize=tokenize, max_ngram_order=order)
        for order in range(1, LONGEST + 1)
    ]
    return CaptionScores(
        pictures=len(hypotheses),
        bleu=tuple(
            _by_sacrebleu(metric, f"BLEU-{order}", hypotheses, references)
            for order, metric in enumerate(bleu, 1)
        ),
        chrf=_by_sacrebleu(sacrebleu.CHRF(), "chrF2", hypotheses, references),
        rouge_l=_mean("ROUGE-L", rouge_l(hypotheses, references), 100.0, "beta:1.2"),
        cider=_mean("CIDEr", cider(hypotheses, references), 100.0, "stem:no"),
        cider_d=_mean("CIDEr-D", cider(hypotheses, references, True), 1.0, "stem:no|sigma:6"),
    )


def _require_references(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if not hypotheses or len(hypotheses) != len(references):
        raise UserError(
            f"scoring captions: {len(hypotheses)} captions and references of {len(references)} "
            f"pictures; expected as many of each, and one at least"
        )
    without = [number for number, texts in enumerate(references, 1) if not texts]
    if without:
        raise UserError(
            f"scoring captions: picture {without[0]} of {len(references)} has no reference; "
            f"give it one or leave it out"
        )


def _by_sacrebleu(
    metric: Metric, name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Score:
    most = max(map(len, references))
    # Where one has fewer references than another, sacrebleu takes None, which its types deny.
    streams: list[Any] = [
        [each[n] if n < len(each) else None for each in references] for n in range(most)
    ]
    result = metric.corpus_score(list(hypotheses), streams)
    return Score(name, float(result.score), str(metric.get_signature()))


def _mean(name: str, scores: list[float], scale: float, details: str) -> Score:
    return Score(name, scale * float(np.mean(scores)), f"words:lower|punctuation:no|{details}")
