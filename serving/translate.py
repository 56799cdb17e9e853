"""Translates a stream of lines."""

from collections.abc import Callable, Sequence
from typing import BinaryIO, Protocol, TextIO

from serving.stream import StreamSummary, answer_stream


class HasText(Protocol):
    """A translation."""

    @property
    def text(self) -> str:
        """Its text."""


Translate = Callable[[Sequence[str]], Sequence[str | HasText]]


class Translates(Protocol):
    """Anything that translates a list of texts, as `Client` does."""

    def translate(self, texts: Sequence[str]) -> Sequence[str | HasText]:
        """One answer a text: a string, or something with `text`."""


class Completes(Protocol):
    """Anything that translates texts whose translations begin in a given way, as `Client` does."""

    def complete(self, pairs: Sequence[tuple[str, str]]) -> Sequence[str | HasText]:
        """One answer a pair of a text and the beginning of its translation."""


def translate_stream(
    translator: Translates | Translate,
    input: BinaryIO,
    output: BinaryIO,
    batch_size: int = 32,
    report: TextIO | None = None,
) -> StreamSummary:
    """Translate lines until the input ends, as `answer_stream` answers them.

    An empty line comes out empty.

    Args:
        translator: A `Client`, or a function from texts to translations.
        input: Where the lines come from, in bytes.
        output: Where the translations go, in bytes; flushed after all lines read at once.
        batch_size: Lines, of those not empty, that are translated at once.
        report: Where damaged lines are reported; standard error if None.

    Returns:
        What passed through.

    Raises:
        UserError: As the translator raises it, with the number of lines already written.
    """
    translate = translator if callable(translator) else translator.translate

    def answer(texts: list[str]) -> list[str]:
        return [found if isinstance(found, str) else found.text for found in translate(texts)]

    def parse(line: str, _: int) -> str | None:
        return line or None

    return answer_stream(answer, parse, input, output, batch_size, report)
