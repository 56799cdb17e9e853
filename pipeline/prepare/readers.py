"""Readers: from a block of a corpus to the raw sides of its pairs."""

import abc
import dataclasses
import json
from collections.abc import Callable, Iterator

from models.errors import UserError
from pipeline.experiment import CorpusFile
from pipeline.prepare.reasons import (
    BROKEN_JSON,
    INVALID_UTF8,
    MISSING_COLUMN,
    MISSING_KEY,
    NOT_A_STRING,
    Dropped,
)


@dataclasses.dataclass(frozen=True)
class ByteRange:
    """Whole lines of a plain file.

    Attributes:
        path: The file.
        start: Offset of the first line's first byte.
        stop: Offset after the last line's last byte.
    """

    path: str
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class Block:
    """The same few thousand lines of each file of an input: one element of the pipeline.

    Attributes:
        input: Index of the input among all inputs of the experiment.
        first_line: Number of the first line, from 1.
        ranges: One range a file of the input, all with the same number of lines.
    """

    input: int
    first_line: int
    ranges: tuple[ByteRange, ...]

    @property
    def name(self) -> str:
        """A name no other block has."""
        return f"{self.input}-{self.first_line}"


def read_lines(part: ByteRange) -> list[bytes]:
    r"""The lines of a range without their ends.

    Lines end at `\n` alone, and one `\r` before it belongs to the end. No other character
    that some programs break lines at (`\x0b`, `\x0c`, U+0085, U+2028, ...) ends a line.

    Raises:
        UserError: If the file has become shorter.
    """
    with open(part.path, "rb") as file:
        file.seek(part.start)
        text = file.read(part.stop - part.start)
    if len(text) < part.stop - part.start:
        raise UserError(
            f"{part.path}: became shorter while it was read; run `seqloom prepare` again"
        )
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


class Reader(abc.ABC):
    """Contract of a corpus format.

    A reader names its files and turns one line of each into the two sides of a pair, as
    bytes that may yet turn out not to be UTF-8. Line `n` of every file belongs to pair `n`.

    Args:
        corpus: The input as the experiment describes it.
    """

    def __init__(self, corpus: CorpusFile):
        self.corpus = corpus

    @abc.abstractmethod
    def paths(self) -> tuple[str, ...]:
        """The files of the input, in the order in which `sides` takes their lines."""

    @abc.abstractmethod
    def sides(self, lines: tuple[bytes, ...]) -> tuple[bytes, bytes]:
        """Source and target of one pair.

        Args:
            lines: One line of each file, without its end.

        Raises:
            Dropped: If the line does not have the form of the format.
        """

    def rows(self, block: Block) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Line numbers, from the first of the file on, each with its line of every file."""
        columns = [read_lines(part) for part in block.ranges]
        return enumerate(zip(*columns, strict=True), block.first_line)


class ParallelReader(Reader):
    """Two files with a sentence a line."""

    def paths(self):
        """The source file and the target file."""
        return self.corpus.source, self.corpus.target

    def sides(self, lines):
        """The lines themselves."""
        source, target = lines
        return source, target


class TabSeparatedReader(Reader):
    """One file with a pair a line, its columns parted by tabs, without quoting."""

    def paths(self):
        """The one file."""
        return (self.corpus.path,)

    def sides(self, lines):
        """The two columns the input names; further columns are ignored."""
        (line,) = lines
        if not line.strip():
            return b"", b""
        columns = line.split(b"\t")
        try:
            return (
                columns[self.corpus.source_column - 1],
                columns[self.corpus.target_column - 1],
            )
        except IndexError:
            raise Dropped(MISSING_COLUMN) from None


class JsonLinesReader(Reader):
    """One file with a JSON object a line."""

    def paths(self):
        """The one file."""
        return (self.corpus.path,)

    def sides(self, lines):
        """The values of the two keys the input names; further keys are ignored."""
        (line,) = lines
        if not line.strip():
            return b"", b""
        row = self._object(line)
        return self._side(row, self.corpus.source_key), self._side(row, self.corpus.target_key)

    @staticmethod
    def _object(line: bytes) -> dict:
        try:
            row = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise Dropped(INVALID_UTF8) from None
        except (ValueError, RecursionError):
            raise Dropped(BROKEN_JSON) from None
        if not isinstance(row, dict):
            raise Dropped(BROKEN_JSON)
        return row

    @staticmethod
    def _side(row: dict, key: str) -> bytes:
        if key not in row:
            raise Dropped(MISSING_KEY)
        if not isinstance(row[key], str):
            raise Dropped(NOT_A_STRING)
        # Half a surrogate pair, which JSON can spell, passes here and fails as UTF-8 later.
        return row[key].encode("utf-8", "surrogatepass")


READERS: dict[str, Callable[[CorpusFile], Reader]] = {
    "parallel": ParallelReader,
    "tsv": TabSeparatedReader,
    "jsonl": JsonLinesReader,
}


def make_reader(corpus: CorpusFile) -> Reader:
    """The reader of an input's format."""
    return READERS[corpus.format](corpus)
