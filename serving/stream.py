"""Answers a stream of lines: a line in, a line out, always."""

import codecs
import contextlib
import dataclasses
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Generic, TextIO, TypeVar

from models.errors import UserError

_SHOWN_LINES = 5
# However many empty lines follow each other, what is read is soon written.
_MOST_EMPTY_LINES = 1024
_BATCHES_OF_A_FILE = 32

Item = TypeVar("Item")


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


@dataclasses.dataclass(frozen=True)
class _Asked(Generic[Item]):
    """A line that is asked for."""

    item: Item
    length: int


def answer_stream(
    answer: Callable[[list[Item]], Sequence[str]],
    parse: Callable[[str, int], Item | None],
    input: BinaryIO,
    output: BinaryIO,
    batch_size: int = 32,
    report: TextIO | None = None,
) -> StreamSummary:
    r"""Answer lines until the input ends.

    Lines end at `\n` alone; a `\r` before it and a byte order mark at the start are dropped. The
    text is UTF-8 whatever the locale; bytes that are not are replaced by U+FFFD, so that the
    lines stay in step, and counted on standard error. A line break inside an answer becomes a
    space. Whatever reads the output may stop: that ends the work quietly.

    A batch takes as long as its longest line, so many batches of a file are read at once and
    lines of like length go together. From a pipe or a terminal, where a line may be long in
    coming, one batch is read and answered after the other.

    Args:
        answer: Gives an answer for each item of a batch.
        parse: Makes an item of a line and its number, from 1; None of a line that is answered by
            an empty one.
        input: Where the lines come from, in bytes.
        output: Where the answers go, in bytes; flushed after all lines read at once.
        batch_size: Items that are answered at once.
        report: Where damaged lines are reported; standard error if None.

    Returns:
        What passed through.

    Raises:
        UserError: As `answer` and `parse` raise it, with the number of lines already written.
    """
    at_once = batch_size * (_BATCHES_OF_A_FILE if _is_file(input) else 1)
    summary = StreamSummary()
    written = 0
    try:
        for batch in _batches(_lines(input, parse, summary), at_once):
            lines = _answers(answer, batch, batch_size)
            output.write("".join(f"{line}\n" for line in lines).encode())
            output.flush()
            written += len(batch)
    except BrokenPipeError:
        _discard(output)
    except UserError as error:
        raise UserError(f"{error} ({written} lines are done and written)") from None
    finally:
        _report(summary, report or sys.stderr)
    return summary


def _lines(
    input: BinaryIO, parse: Callable[[str, int], Item | None], summary: StreamSummary
) -> Iterator[_Asked[Item] | None]:
    for raw in input:
        summary.lines += 1
        if summary.lines == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            summary.invalid.append(summary.lines)
            line = raw.decode("utf-8", "replace")
        item = parse(line, summary.lines)
        summary.empty += item is None
        yield None if item is None else _Asked(item, len(line))


def _batches(
    lines: Iterator[_Asked[Item] | None], size: int
) -> Iterator[list[_Asked[Item] | None]]:
    """Group lines so that each group has at most `size` that are asked for."""
    batch: list[_Asked[Item] | None] = []
    filled = 0
    for line in lines:
        batch.append(line)
        filled += line is not None
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


def _answers(
    answer: Callable[[list[Item]], Sequence[str]],
    batch: list[_Asked[Item] | None],
    batch_size: int,
) -> list[str]:
    """A line for each, asked for in batches of like length."""
    asked = [(index, each) for index, each in enumerate(batch) if each is not None]
    asked.sort(key=lambda pair: pair[1].length)
    lines = [""] * len(batch)
    for first in range(0, len(asked), batch_size):
        chosen = asked[first : first + batch_size]
        found = answer([each.item for _, each in chosen])
        if len(found) != len(chosen):
            raise ValueError(f"{len(chosen)} lines got {len(found)} answers")
        for (index, _), text in zip(chosen, found, strict=True):
            lines[index] = _one_line(text)
    return lines


def _one_line(text: str) -> str:
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
