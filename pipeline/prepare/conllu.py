"""CoNLL-U, the format of Universal Dependencies: sentences of words in ten columns.

https://universaldependencies.org/format.html
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from models.separators import QUESTION, SENTENCE
from pipeline.prepare.reasons import BROKEN_CONLLU, EMPTY, NO_IDENTITY, Dropped

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

# Separators are what a text may not hold, and spaces are what a word may not hold besides.
_INSIDE_TEXTS = {ord(mark): " " for mark in (SENTENCE, QUESTION)}
_INSIDE_WORDS = {ord(mark): "\u00a0" for mark in (" ", SENTENCE, QUESTION)}
_NEW_DOCUMENT = b"newdoc"


class Sentence(NamedTuple):
    """One sentence of a file, with what its comments say."""

    words: list[list[bytes]]  # the ten columns of each; ranges and empty nodes left out
    comments: dict[bytes, bytes]


def starts_document(line: bytes) -> bool:
    """Whether a line is the comment `newdoc`, with or without an id."""
    return line.startswith(b"#") and _comment(line)[0].split()[:1] == [_NEW_DOCUMENT]


def is_record(lines: Sequence[bytes]) -> bool:
    """Whether lines hold anything but comments and blanks."""
    return any(line.strip() and not line.startswith(b"#") for line in lines)


def parse_sentences(lines: Sequence[bytes]) -> Iterator[Sentence]:
    """Sentences of a record.

    Args:
        lines: Without their ends.

    Raises:
        Dropped: If a line has not ten columns, or the words are not numbered from 1; it tells
            how many lines after the first that is.
    """
    words: list[list[bytes]] = []
    comments: dict[bytes, bytes] = {}
    for offset, line in enumerate([*lines, b""]):
        if not line.strip():
            if words:
                yield Sentence(words, comments)
            words, comments = [], {}
        elif line.startswith(b"#"):
            comments.update([_comment(line)])
        else:
            columns = line.split(b"\t")
            if len(columns) != len(COLUMNS) or not all(columns):
                raise Dropped(BROKEN_CONLLU, offset)
            if b"-" in columns[0] or b"." in columns[0]:
                continue  # A range of words written as one, or a node without a word.
            # A sentence whose blank line is missing counts from 1 again.
            if columns[0] != str(len(words) + 1).encode():
                raise Dropped(BROKEN_CONLLU, offset)
            words.append(columns)


def joined(words: Sequence[Sequence[bytes]], column: str) -> bytes:
    """A column of words, joined by spaces; spaces in it become no-break spaces.

    Raises:
        UnicodeDecodeError: If it is not UTF-8.
    """
    index = COLUMNS.index(column)
    texts = (word[index].decode() for word in words)
    return " ".join(text.translate(_INSIDE_WORDS) for text in texts).encode()


def written(sentence: Sentence) -> bytes:
    """A sentence as its comment `text` has it, or its words joined by spaces.

    Raises:
        UnicodeDecodeError: If it is not UTF-8.
    """
    text = sentence.comments.get(b"text", b"").decode().translate(_INSIDE_TEXTS)
    return text.encode() or joined(sentence.words, "form")


def genre(identity: bytes) -> bytes:
    """What stands in an id before its first dash.

    Raises:
        Dropped: If there is nothing.
    """
    found = identity.split(b"-")[0].strip()
    if not found:
        raise Dropped(NO_IDENTITY)
    return found


def only_sentence(lines: Sequence[bytes]) -> Sentence:
    """The sentence of a record that has one.

    Raises:
        Dropped: As `parse_sentences` does, or if there is none.
    """
    for sentence in parse_sentences(lines):
        return sentence
    raise Dropped(EMPTY)


def _comment(line: bytes) -> tuple[bytes, bytes]:
    """Key and value of `# key = value`; the value may be missing."""
    key, _, value = line.lstrip(b"# \t").partition(b"=")
    return key.strip(), value.strip()
