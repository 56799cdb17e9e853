"""Paragraphs of one page of LibreOffice's help, as its HTML packages write them.

The pages of all languages come from one XML source, so a paragraph keeps its `id` in
every translation. Three things in them need care:

- `<pre>` blocks and the classes of `_CODE_CLASSES` hold program text.
- A switch (`<span class="switchinline">` or `"switch"`) holds one `<span>` a system (`MAC`,
  `WIN`, `UNIX`) or program (`WRITER`, `CALC`, ...), and often one without a class for the
  rest. A browser shows one of them; read as plain text they would run together.
- A picture or line break may be all that separates two words; but a picture at the end
  of a sentence must not leave a space before the full stop.
"""

import dataclasses
import enum
import html.parser
import re

_PARAGRAPH_TAGS = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6"))
_VOID_TAGS = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
)
_SWITCH_CLASSES = frozenset(("switch", "switchinline"))
_CODE_CLASSES = frozenset(("code", "codeintable", "smathcode", "bascode", "pycode", "sqlcode"))
_MAC_CLASS = "MAC"
_PICTURE = "\ufffc"
# Spaces around a picture go where a mark that ends a clause or a Chinese character follows;
# other spaces, beside Chinese marks, which are as wide as a letter and a space.
_NEEDLESS_SPACE = re.compile(
    rf"\s*{_PICTURE}[\s{_PICTURE}]*(?=[,.;:!?)\u3001-\u301f\u4e00-\u9fff\uff01-\uff5e]|$)"
    r"|\s+(?=[、。」』》】，；：！？）])|(?<=[、。「『《【，；：！？（])\s+"
)
_ZERO_WIDTH = dict.fromkeys(map(ord, "\u00ad\u200b\u200e\u200f\u2060\ufeff"))


class Kind(enum.Enum):
    """What a paragraph holds."""

    TEXT = "text"
    CODE = "code"
    MACOS = "macos"


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """A paragraph or heading.

    Attributes:
        identifier: Its `id`, the same in all languages; None where it has none.
        text: Its words, with every run of white space one space. Of a switch inside it,
            the alternative that `choose_alternative` takes.
        kind: Whether it is text, program text, or shown on macOS only.
    """

    identifier: str | None
    text: str
    kind: Kind


@dataclasses.dataclass
class _Element:
    """An element not yet closed."""

    tag: str
    identifier: str | None = None
    classes: frozenset[str] = frozenset()
    text: list[str] = dataclasses.field(default_factory=list)
    alternatives: list[tuple[frozenset[str], str]] = dataclasses.field(default_factory=list)

    @property
    def is_switch(self) -> bool:
        return bool(self.classes & _SWITCH_CLASSES)


def normalized(text: str) -> str:
    """`text` on one line: every run of Unicode white space becomes one space.

    Characters of no width go, and so do the places of pictures and needless spaces beside
    Chinese punctuation marks.
    """
    text = _NEEDLESS_SPACE.sub("", text.translate(_ZERO_WIDTH))
    return " ".join(text.replace(_PICTURE, " ").split())


def choose_alternative(alternatives: list[tuple[frozenset[str], str]]) -> str:
    """The text of a switch for a reader who is not on macOS.

    Args:
        alternatives: Classes and text of each alternative, in the order of the page.

    Returns:
        The alternative without a class, which the page shows where no other fits; else the
        first that is not for macOS; else nothing.
    """
    for classes, text in alternatives:
        if not classes:
            return text
    return next((text for classes, text in alternatives if _MAC_CLASS not in classes), "")


def read_paragraphs(page: str) -> list[Paragraph]:
    """The paragraphs and headings of a page, in order.

    Args:
        page: HTML of one page.
    """
    reader = _PageReader()
    reader.feed(page)
    reader.close()
    return reader.paragraphs


class _PageReader(html.parser.HTMLParser):
    """Every open element gathers its own text and hands it to its parent when it closes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.paragraphs: list[Paragraph] = []
        self._open = [_Element("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID_TAGS:
            self._open[-1].text.append(_PICTURE if tag == "img" else " ")
            return
        values = dict(attrs)
        classes = frozenset((values.get("class") or "").split())
        self._open.append(_Element(tag, values.get("id") or None, classes))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        self._open[-1].text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if all(element.tag != tag for element in self._open):
            return
        while self._close_innermost() != tag:
            pass

    def close(self) -> None:
        super().close()
        while len(self._open) > 1:
            self._close_innermost()

    def _close_innermost(self) -> str:
        element, parent = self._open.pop(), self._open[-1]
        if element.is_switch:
            element.text.append(choose_alternative(element.alternatives))
        text = "".join(element.text)
        if element.tag in _PARAGRAPH_TAGS:
            kind = self._kind(element)
            self.paragraphs.append(Paragraph(element.identifier, normalized(text), kind))
        elif parent.is_switch:
            parent.alternatives.append((element.classes, text))
        else:
            parent.text.append(text)
        return element.tag

    def _kind(self, element: _Element) -> Kind:
        around = [*self._open, element]
        if any(each.tag == "pre" or each.classes & _CODE_CLASSES for each in around):
            return Kind.CODE
        if any(_MAC_CLASS in each.classes for each in around):
            return Kind.MACOS
        return Kind.TEXT
