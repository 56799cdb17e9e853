"""What clients ask: the signature, its inputs, and how answers are read.

Nothing here sends anything, so that the client that waits and the one that does not ask the same.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from models.errors import UserError
from serving import signatures
from serving.answers import Alignment, Continuation, PairScore, Translation
from serving.generation import Generation, generation_columns
from serving.signatures import Signature

Answer = TypeVar("Answer")
Outputs = dict[str, list]


@dataclasses.dataclass(frozen=True)
class Question(Generic[Answer]):
    """What is asked.

    Attributes:
        signature: The signature that answers.
        columns: Its inputs by name, all of one length.
        read: Makes an answer a row of the outputs of one batch.
    """

    signature: Signature
    columns: Mapping[str, Sequence]
    read: Callable[[Outputs], Iterator[Answer]]


def translations(texts: Sequence[str]) -> Question[Translation]:
    """The best translation of each text."""
    return Question(signatures.TRANSLATE, {signatures.TEXT: texts}, _translations)


def nbest(texts: Sequence[str]) -> Question[list[Translation]]:
    """Several translations of each text, best first."""
    return Question(signatures.NBEST, {signatures.TEXT: texts}, _nbest)


def alignments(texts: Sequence[str]) -> Question[Alignment]:
    """A translation of each text, and what its pieces attended to."""
    return Question(signatures.ALIGN, {signatures.TEXT: texts}, _alignments)


def completions(pairs: Sequence[tuple[str, str]]) -> Question[Translation]:
    """Translations that begin in a given way, of texts and beginnings."""
    columns = {
        signatures.TEXT: [text for text, _ in pairs],
        signatures.PREFIX: [prefix for _, prefix in pairs],
    }
    return Question(signatures.COMPLETE, columns, _translations)


def scores(pairs: Sequence[tuple[str, str]]) -> Question[PairScore]:
    """Scores of given translations, of sources and targets."""
    columns = {
        signatures.SOURCE: [source for source, _ in pairs],
        signatures.TARGET: [target for _, target in pairs],
    }
    return Question(signatures.FORCED_SCORE, columns, _scores)


def continuations(prompts: Sequence[str], generation: Generation | None) -> Question[Continuation]:
    """How a language model goes on with each prompt.

    Raises:
        UserError: If `generation` cannot be right.
    """
    columns = generation_columns(prompts, generation or Generation())
    return Question(signatures.GENERATE, columns, _continuations)


def predictions(inputs: Mapping[str, Sequence], signature: str) -> Question[dict[str, Any]]:
    """The outputs of any signature.

    Raises:
        UserError: If the inputs have different numbers of rows.
    """
    sizes = {len(column) for column in inputs.values()}
    if len(sizes) != 1:
        raise UserError(
            f"signature {signature!r}: its inputs have {sorted(sizes) or 'no'} rows; give each "
            f"input as many"
        )
    return Question(Signature(signature, (), ()), inputs, _rows)


def _translations(answer: Outputs) -> Iterator[Translation]:
    for text, score in _zipped(answer, signatures.TRANSLATION, signatures.SCORE):
        yield Translation(text, score)


def _nbest(answer: Outputs) -> Iterator[list[Translation]]:
    for texts, scores in _zipped(answer, signatures.TRANSLATIONS, signatures.SCORES):
        yield [Translation(text, score) for text, score in zip(texts, scores, strict=True)]


def _alignments(answer: Outputs) -> Iterator[Alignment]:
    for parts in _zipped(answer, *signatures.ALIGN.output_names):
        yield _alignment(*parts)


def _scores(answer: Outputs) -> Iterator[PairScore]:
    for pair in _zipped(answer, signatures.LOG_PROBABILITY, signatures.TOKENS):
        yield PairScore(*pair)


def _continuations(answer: Outputs) -> Iterator[Continuation]:
    for parts in _zipped(answer, *signatures.GENERATE.output_names):
        yield Continuation(*parts)


def _rows(answer: Outputs) -> Iterator[dict[str, Any]]:
    for row in _zipped(answer, *answer):
        yield dict(zip(answer, row, strict=True))


def _zipped(answer: Outputs, *names: str) -> Iterator[tuple]:
    return zip(*(answer[name] for name in names), strict=True)


def _alignment(
    text: str, source_tokens: list[str], target_tokens: list[str], weights: list[list[float]]
) -> Alignment:
    """Cut the padding off."""
    source, target = _unpadded(source_tokens), _unpadded(target_tokens)
    rows = tuple(tuple(row[: len(source)]) for row in weights[: len(target)])
    return Alignment(text, source, target, rows)


def _unpadded(tokens: list[str]) -> tuple[str, ...]:
    length = len(tokens)
    while length and not tokens[length - 1]:
        length -= 1
    return tuple(tokens[:length])
