"""From two translations of a page to pairs of paragraphs, and why a pair is dropped."""

import collections
import enum
import re
from collections.abc import Iterable, Iterator, Mapping

from help_pages import Kind, Paragraph, read_paragraphs

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w+")
# Program text that stands in an ordinary paragraph: a Python prompt, a comment, an HTML tag.
_PROGRAM_TEXT = re.compile(r">>> |/\*|</?[A-Z]+[ >]")
# Control, private-use and replacement characters: what is left of a text read in a wrong
# encoding.
_DAMAGE = re.compile(r"[\x00-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")
# The same in Chinese, which has no use for these signs of Latin-1.
_DAMAGE_IN_CHINESE = re.compile(r"[\xa6\xa8\xa9\xaa\xab\xac\xae\xb6\xb8\xba\xbb\xbe]")
# Chinese letters in 100 at least; below, only a word or two of a list of names is translated.
_HAN_PERCENT = 5
# A Chinese character says as much as about three letters of English: the median of the pairs.
_LETTERS_A_HAN = 3
# A side this long, in letters, that is this many times the other was translated from another
# state of the page.
_LONG_SIDE = 60
_LENGTH_RATIO = 2.5

Pair = tuple[str, str]


class Reason(enum.Enum):
    """Why a paragraph of the English pages gives no pair."""

    NO_IDENTIFIER = "without an id"
    UNMATCHED = "id missing or ambiguous in the other language"
    MACOS = "shown on macOS only"
    CODE = "program text"
    EMPTY = "no letter on a side"
    UNTRANSLATED = "untranslated"
    DAMAGED = "damaged characters"
    LENGTH = "one side far longer"
    DUPLICATE = "duplicate"


class PairCollector:
    """Gathers unique pairs page by page, in the order they come, and counts what it drops.

    Attributes:
        pairs: The pairs, English first, as the keys of a dictionary.
        read: Number of paragraphs of the English pages.
        dropped: Their number by reason; with the pairs they add up to `read`.
    """

    def __init__(self, chinese: bool) -> None:
        """Start with nothing.

        Args:
            chinese: Whether the other language is Chinese.
        """
        self.pairs: dict[Pair, None] = {}
        self.read = 0
        self.dropped: collections.Counter[Reason] = collections.Counter()
        self._chinese = chinese

    def add_pages(self, english: Mapping[str, str], translated: Mapping[str, str]) -> None:
        """Add all pages of the English package.

        Args:
            english: HTML by path of the page.
            translated: The same in the other language.
        """
        for path in sorted(english):
            page = read_paragraphs(translated[path]) if path in translated else []
            self.add_page(read_paragraphs(english[path]), page)

    def add_page(self, english: list[Paragraph], translated: list[Paragraph]) -> None:
        """Add the pairs of one page."""
        for paragraph, translation in aligned(english, translated):
            self.read += 1
            reason = self._reason(paragraph, translation)
            if reason is not None:
                self.dropped[reason] += 1
            elif translation is not None:
                self.pairs[paragraph.text, translation.text] = None

    def _reason(self, english: Paragraph, translation: Paragraph | None) -> Reason | None:
        if english.identifier is None:
            return Reason.NO_IDENTIFIER
        if translation is None:
            return Reason.UNMATCHED
        kinds = (english.kind, translation.kind)
        if Kind.MACOS in kinds:
            return Reason.MACOS
        if Kind.CODE in kinds or _PROGRAM_TEXT.match(english.text):
            return Reason.CODE
        reason = reason_to_drop(english.text, translation.text, self._chinese)
        if reason is None and (english.text, translation.text) in self.pairs:
            return Reason.DUPLICATE
        return reason


def aligned(
    english: list[Paragraph], translated: list[Paragraph]
) -> Iterator[tuple[Paragraph, Paragraph | None]]:
    """Each paragraph of an English page with its translation.

    An id may recur in a page, since a page embeds parts of others. Where both pages have the
    same ids in the same order that does no harm. But some pages sort their sections by the
    title in their own language; in those, an id counts only if all it stands for is equal.

    Args:
        english: The page in English.
        translated: The same page in the other language.

    Yields:
        A paragraph and its translation, or None where there is none or more than one.
    """
    if _identifiers(english) == _identifiers(translated):
        yield from zip(english, translated, strict=True)
        return
    english_by_id, translated_by_id = _by_identifier(english), _by_identifier(translated)
    for paragraph in english:
        found = translated_by_id.get(paragraph.identifier, set())
        is_sure = len(found) == 1 and len(english_by_id[paragraph.identifier]) == 1
        yield paragraph, next(iter(found)) if is_sure else None


def _identifiers(paragraphs: Iterable[Paragraph]) -> list[str | None]:
    return [paragraph.identifier for paragraph in paragraphs]


def _by_identifier(paragraphs: Iterable[Paragraph]) -> dict[str | None, set[Paragraph]]:
    found = collections.defaultdict(set)
    for paragraph in paragraphs:
        found[paragraph.identifier].add(paragraph)
    return found


def reason_to_drop(english: str, translation: str, chinese: bool) -> Reason | None:
    """Why the two texts of an aligned pair are of no use, or None if they are good.

    Args:
        english: English text, normalised.
        translation: The other text, normalised.
        chinese: Whether the other language is Chinese.
    """
    if not (_LETTER.search(english) and _LETTER.search(translation)):
        return Reason.EMPTY
    if _is_untranslated(english, translation, chinese):
        return Reason.UNTRANSLATED
    if _is_damaged(english, translation, chinese):
        return Reason.DAMAGED
    shorter, longer = sorted((_length(english), _length(translation)))
    if longer >= _LONG_SIDE and longer > _LENGTH_RATIO * shorter:
        return Reason.LENGTH
    return None


def _is_untranslated(english: str, translation: str, chinese: bool) -> bool:
    if _WORD.findall(english.casefold()) == _WORD.findall(translation.casefold()):
        return True
    letters, han = len(_LETTER.findall(translation)), len(_HAN.findall(translation))
    return chinese and han * 100 < _HAN_PERCENT * letters


def _is_damaged(english: str, translation: str, chinese: bool) -> bool:
    if _DAMAGE.search(english) or _DAMAGE.search(translation):
        return True
    signs = set(_DAMAGE_IN_CHINESE.findall(translation)) if chinese else set()
    return not signs <= set(english)


def _length(text: str) -> int:
    return len(text) + (_LETTERS_A_HAN - 1) * len(_HAN.findall(text))
