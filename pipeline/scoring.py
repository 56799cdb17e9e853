"""Scores of translations against references: BLEU, chrF and TER by sacrebleu.

BLEU is of Papineni et al. 2002, chrF of Popović 2015, TER of Snover et al. 2006, and sacrebleu of
Post 2018.

Every score comes with sacrebleu's signature, without which it cannot be compared with others.
Nothing is ever downloaded: of sacrebleu's tokenizers only those that need no model are taken.
"""

import dataclasses
import json
import math
from collections.abc import Sequence

import sacrebleu
from rich.console import Console
from rich.table import Table
from sacrebleu.metrics.base import Metric

from models.errors import UserError

TOKENIZERS_OF_LANGUAGES = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
DEFAULT_TOKENIZER = "13a"

_EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}
"""Extras of sacrebleu that some tokenizers need."""

_OFFLINE_TOKENIZERS = ("13a", "intl", "zh", "char", "none", *_EXTRAS)
_WRITTEN_WITHOUT_SPACES = frozenset({"zh", "ja-mecab"})

LENGTH_BUCKETS = ((1, 10), (11, 20), (21, 30), (31, 50), (51, None))
"""Source lengths in pieces, first and last of each bucket."""


@dataclasses.dataclass(frozen=True)
class Score:
    """One score over all sentences.

    Attributes:
        name: `BLEU`, `chrF2` or `TER`.
        value: In points, 0 to 100; TER may exceed 100, and less of it is better.
        signature: sacrebleu's record of how it was computed.
    """

    name: str
    value: float
    signature: str


@dataclasses.dataclass(frozen=True)
class LengthBucket:
    """BLEU of the sentences whose source has a certain length.

    Attributes:
        first: Fewest source pieces.
        last: Most source pieces; None for no limit.
        sentences: Number of sentences.
        bleu: Their corpus BLEU; None when there are none.
    """

    first: int
    last: int | None
    sentences: int
    bleu: float | None

    @property
    def name(self) -> str:
        """The lengths as text, such as `11–20` or `51+`."""
        return f"{self.first}+" if self.last is None else f"{self.first}–{self.last}"


@dataclasses.dataclass(frozen=True)
class TranslationScores:
    """All scores of one set of translations.

    Attributes:
        sentences: Number of sentences.
        bleu: BLEU.
        chrf: chrF.
        ter: Translation edit rate.
        buckets: BLEU by source length.
    """

    sentences: int
    bleu: Score
    chrf: Score
    ter: Score
    buckets: tuple[LengthBucket, ...]

    def to_json(self) -> str:
        """The scores as an indented JSON document."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)

    def table(self, console: Console) -> None:
        """Print the scores, then BLEU by source length."""
        scores = Table(title=f"{self.sentences:,} sentences", title_justify="left")
        scores.add_column("score")
        scores.add_column("points", justify="right")
        scores.add_column("signature", overflow="fold")
        for score in (self.bleu, self.chrf, self.ter):
            scores.add_row(score.name, f"{score.value:.1f}", score.signature)
        console.print(scores)
        console.print(self._table_of_lengths())

    def _table_of_lengths(self) -> Table:
        lengths = Table(title="BLEU by source length", title_justify="left")
        lengths.add_column("pieces")
        lengths.add_column("sentences", justify="right")
        lengths.add_column("BLEU", justify="right")
        for bucket in self.buckets:
            bleu = "–" if bucket.bleu is None else f"{bucket.bleu:.1f}"
            lengths.add_row(bucket.name, f"{bucket.sentences:,}", bleu)
        return lengths


def tokenizer_for(language: str) -> str:
    """Name of sacrebleu's tokenizer for a target language.

    Args:
        language: Code such as `en`, `zh`, `zh-CN` or `zh_Hans`. An unknown code gets the
            tokenizer of languages written with spaces.
    """
    main = language.lower().replace("_", "-").split("-")[0]
    return TOKENIZERS_OF_LANGUAGES.get(main, DEFAULT_TOKENIZER)


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    source_lengths: Sequence[int],
    tokenize: str = DEFAULT_TOKENIZER,
) -> TranslationScores:
    """Score translations.

    Args:
        hypotheses: The translations, detokenised.
        references: A reference for each.
        source_lengths: Number of source pieces of each sentence.
        tokenize: sacrebleu's tokenizer for BLEU; `tokenizer_for` gives the language's own.

    Returns:
        The scores over all sentences, and BLEU by source length.

    Raises:
        UserError: If there are no sentences, the three have not the same number, or the
            tokenizer is not to be had.
    """
    _require_sentences(hypotheses, references, source_lengths)
    bleu = _bleu(tokenize)
    chrf = sacrebleu.CHRF()
    split = tokenize in _WRITTEN_WITHOUT_SPACES
    # sacrebleu takes single Chinese characters for words only if both are set.
    ter = sacrebleu.TER(normalized=split, asian_support=split)
    return TranslationScores(
        sentences=len(hypotheses),
        bleu=_score(bleu, hypotheses, references),
        chrf=_score(chrf, hypotheses, references),
        ter=_score(ter, hypotheses, references),
        buckets=_by_length(bleu, hypotheses, references, source_lengths),
    )


def bleu_and_chrf(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = DEFAULT_TOKENIZER
) -> dict[str, float]:
    """The two scores that validations in training report.

    Args:
        hypotheses: The translations, detokenised.
        references: A reference for each.
        tokenize: sacrebleu's tokenizer for BLEU.

    Returns:
        `bleu` and `chrf`, in points.

    Raises:
        UserError: As `score_translations` does.
    """
    _require_sentences(hypotheses, references)
    bleu = _score(_bleu(tokenize), hypotheses, references)
    return {
        "bleu": bleu.value,
        "chrf": _score(sacrebleu.CHRF(), hypotheses, references).value,
    }


def _require_sentences(hypotheses, references, source_lengths=None) -> None:
    counts = {"hypotheses": len(hypotheses), "references": len(references)}
    if source_lengths is not None:
        counts["source lengths"] = len(source_lengths)
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    if len(set(counts.values())) > 1:
        raise UserError(f"scoring: {told}; expected as many of each, one a sentence.")
    if not hypotheses:
        raise UserError(f"scoring: {told}; there is nothing to score. Give a set with sentences.")


def _bleu(tokenize: str) -> sacrebleu.BLEU:
    if tokenize not in _OFFLINE_TOKENIZERS:
        raise UserError(
            f"scoring: tokenizer {tokenize!r}; expected one of {', '.join(_OFFLINE_TOKENIZERS)}. "
            "Others download a model and are not used."
        )
    try:
        return sacrebleu.BLEU(tokenize=tokenize)
    except (ImportError, RuntimeError):
        if tokenize not in _EXTRAS:
            raise
        extra = f"sacrebleu[{_EXTRAS[tokenize]}]"
        raise UserError(
            f"scoring: tokenizer {tokenize!r} needs packages that are not installed; "
            f"run: pip install '{extra}'"
        ) from None


def _score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(result.name, float(result.score), str(metric.get_signature()))


def _by_length(
    bleu: sacrebleu.BLEU,
    hypotheses: Sequence[str],
    references: Sequence[str],
    source_lengths: Sequence[int],
) -> tuple[LengthBucket, ...]:
    buckets = []
    for first, last in LENGTH_BUCKETS:
        chosen = [
            (hypothesis, reference)
            for hypothesis, reference, length in zip(
                hypotheses, references, source_lengths, strict=True
            )
            if first <= max(length, 1) <= (last or math.inf)  # an empty source counts as short
        ]
        value = _score(bleu, *zip(*chosen, strict=True)).value if chosen else None
        buckets.append(LengthBucket(first, last, len(chosen), value))
    return tuple(buckets)
