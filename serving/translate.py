"""Translates a stream of lines: a line in, a line out, always."""

import codecs
import contextlib
import dataclasses
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Protocol, TextIO

from models.errors import UserError

_SHOWN_LINES = 5
# However many empty lines follow each other, what is read is soon written.
_MOST_EMPTY_LINES = 1024
_BATCHES_OF_A_FILE = 32


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


@dataclasses.dataclass
class StreamSummary:
    """What passed through.

    Attributes:
        lines: Lines read, each answered by one line.
        empty: Those among them that were empty, and came out empty without being asked for.
        invalid: Numbers of the lines, from 1, that were not valid UTF-8.
    """

    lines: int = 0
    empty: int = 0
    invalid: list[int] = dataclasses.field(default_factory=list)


def translate_stream(
    translator: Translates | Translate,
    input: BinaryIO,
    output: BinaryIO,
    batch_size: int = 32,
    report: TextIO | None = None,
) -> StreamSummary:
    r"""Translate lines until the input ends.

    Lines end at `\n` alone; a `\r` before it and a byte order mark at the start are dropped.
    An empty line comes out empty. The text is UTF-8 whatever the locale; bytes that are not
    are replaced by U+FFFD, so that the lines stay in step, and counted on standard error. A
    line break inside a translation becomes a space. Whatever reads the output may stop: that
    ends the work quietly.

    A batch takes as long as its longest line, so many batches of a file are read at once and
    lines of like length go together. From a pipe or a terminal, where a line may be long in
    coming, one batch is read and answered after the other.

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
    translate = _in_order_of_length(translate, batch_size)
    at_once = batch_size * (_BATCHES_OF_A_FILE if _is_file(input) else 1)
    summary = StreamSummary()
    written = 0
    try:
        for batch in _batches(_lines(input, summary), at_once):
            output.write("".join(f"{line}\n" for line in _answers(translate, batch)).encode())
            output.flush()
            written += len(batch)
    except BrokenPipeError:
        _discard(output)
    except UserError as error:
        raise UserError(f"{error} ({written} lines are done and written)") from None
    finally:
        _report(summary, report or sys.stderr)
    return summary


def _lines(input: BinaryIO, summary: StreamSummary) -> Iterator[str]:
    for raw in input:
        summary.lines += 1
        if summary.lines == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        if not raw:
            summary.empty += 1
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError:
            summary.invalid.append(summary.lines)
            yield raw.decode("utf-8", "replace")


def _batches(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Group lines so that each group has at most `size` that are not empty."""
    batch, filled = [], 0
    for line in lines:
        batch.append(line)
        filled += bool(line)
        if filled == size or len(batch) - filled == _MOST_EMPTY_LINES:
            yield batch
            batch, filled = [], 0
    if batch:
        yield batch


def _is_file(input: BinaryIO) -> bool:
    """Whether all that will be read is there already."""
    try:
        return stat.S_ISREG(os.fstat(input.fileno()).st_mode)
    except (OSError, AttributeError):
        return False


def _in_order_of_length(translate: Translate, batch_size: int) -> Translate:
    """A function that gives the same answers, asked for in batches of like length."""

    def translate_all(texts: Sequence[str]) -> list[str | HasText]:
        answers: list[str | HasText] = [""] * len(texts)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for first in range(0, len(order), batch_size):
            chosen = order[first : first + batch_size]
            found = translate([texts[index] for index in chosen])
            if len(found) != len(chosen):
                raise ValueError(f"{len(chosen)} texts got {len(found)} translations")
            for index, answer in zip(chosen, found, strict=True):
                answers[index] = answer
        return answers

    return translate_all


def _answers(translate: Translate, batch: list[str]) -> list[str]:
    texts = [line for line in batch if line]
    remaining = iter(translate(texts))
    return [_one_line(next(remaining)) if line else "" for line in batch]


def _one_line(answer: str | HasText) -> str:
    text = answer if isinstance(answer, str) else answer.text
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def _discard(output: BinaryIO) -> None:
    """Let the interpreter's own last flush of the closed pipe succeed."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output.fileno())
        os.close(nowhere)


def _report(summary: StreamSummary, report: TextIO) -> None:
    if not summary.invalid:
        return
    numbers = ", ".join(map(str, summary.invalid[:_SHOWN_LINES]))
    more = ", ..." if len(summary.invalid) > _SHOWN_LINES else ""
    report.write(
        f"warning: {len(summary.invalid)} of {summary.lines} lines were not valid UTF-8, and "
        f"their damaged characters were replaced (line {numbers}{more}). If the text has another "
        "encoding, convert it first, for instance with iconv -f GBK -t UTF-8\n"
    )
