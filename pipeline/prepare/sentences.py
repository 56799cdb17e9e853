"""Texts of many sentences as the one line that a record holds."""

from collections.abc import Iterable

from models.separators import QUESTION, SENTENCE

_SENTENCE = f" {SENTENCE} ".encode()
_QUESTION = f" {QUESTION} ".encode()


def join_sentences(sentences: Iterable[bytes]) -> bytes:
    """Sentences with separators between them; separators inside them become spaces."""
    return _SENTENCE.join(without_separators(sentence) for sentence in sentences)


def join_question(story: bytes, question: bytes) -> bytes:
    """A story, already joined, and the question about it."""
    return story + _QUESTION + without_separators(question)


def picture_of(source: bytes) -> bytes:
    """The path of a picture, where sources are such paths or questions about them."""
    return source.partition(_QUESTION)[0]


def question_of(source: bytes) -> bytes:
    """The question about a picture; empty if there is none."""
    return source.partition(_QUESTION)[2]


def without_separators(text: bytes) -> bytes:
    """A text whose separators have become spaces."""
    return text.replace(SENTENCE.encode(), b" ").replace(QUESTION.encode(), b" ")


def lines_of(text: bytes) -> list[bytes]:
    """The lines of a text that are not blank, without white space around them; tabs are spaces."""
    lines = text.replace(b"\t", b" ").splitlines()
    return [line.strip() for line in lines if line.strip()]
