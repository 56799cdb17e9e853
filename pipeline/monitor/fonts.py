"""Finds fonts that can draw a text, whatever its script.

matplotlib's own font has no Chinese, Japanese or Korean glyphs and would draw boxes. Fonts
are looked for in matplotlib's list, on the system, and in the Python packages that carry one
(`pip install pylopdf-fonts-zh-cn`). A character that no font has is spelled by its code.
"""

import dataclasses
import functools
import importlib.util
import pathlib
from collections.abc import Iterable, Iterator

from matplotlib import font_manager, ft2font

BUNDLED = "DejaVu Sans"

PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "Noto Sans",
)
"""Families taken before others that have the same characters."""

FONT_PACKAGES = ("pylopdf_fonts_zh_cn", "noto_cjk_sans_jp_regular")
"""Python packages that carry a font with Chinese glyphs."""

_NO_GLYPHS_OF_THEIR_OWN = ("last resort", "adobe blank", "color emoji")
"""Names of fonts that claim characters which they draw as boxes or not at all."""


@dataclasses.dataclass(frozen=True)
class Font:
    """A font file that matplotlib can draw with.

    Attributes:
        family: Name of the family.
        path: The file.
        face: Number of the face in the file.
    """

    family: str
    path: str
    face: int = 0

    def characters(self) -> frozenset[int]:
        """Code points that it has a glyph for; none if it cannot be read or scaled."""
        return _characters(self.path, self.face)


@dataclasses.dataclass(frozen=True)
class Lettering:
    """Fonts chosen for a set of texts.

    Attributes:
        families: Families in the order in which to look for a glyph.
        missing: Code points that none of them has.
    """

    families: tuple[str, ...]
    missing: frozenset[int] = frozenset()

    def spell(self, text: str) -> str:
        """The text with the characters that cannot be drawn spelled as `U+XXXX`."""
        return "".join(
            f"U+{ord(letter):04X}" if ord(letter) in self.missing else letter for letter in text
        )


def lettering(texts: Iterable[str]) -> Lettering:
    """Choose fonts that draw texts, as few as may be.

    Args:
        texts: All that one picture writes.

    Returns:
        The bundled font followed by the fonts needed beside it.
    """
    needed = {ord(letter) for text in texts for letter in text if letter.isprintable()}
    needed -= {ord(" ")}
    families = [BUNDLED]
    for font in _candidates():
        found = needed & font.characters()
        if found and font.family not in families:
            families.append(font.family)
        needed -= found
        if not needed:
            break
    return Lettering(tuple(families), frozenset(needed))


def _candidates() -> Iterator[Font]:
    """Fonts in the order in which they are tried; the costly look at the system comes last."""
    yield Font(BUNDLED, font_manager.findfont(BUNDLED))
    yield from _by_preference(known_fonts())
    if _add_unlisted_fonts():
        yield from _by_preference(known_fonts())


def known_fonts() -> list[Font]:
    """The upright, regular fonts in matplotlib's list."""
    return [
        Font(entry.name, entry.fname, entry.index)
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal"
        and _is_regular(entry.weight)
        and not any(name in entry.name.lower() for name in _NO_GLYPHS_OF_THEIR_OWN)
    ]


def _is_regular(weight: int | str) -> bool:
    return weight in ("normal", "regular", "medium", "book") or weight in range(300, 600)


def _by_preference(fonts: list[Font]) -> list[Font]:
    rank = {family: number for number, family in enumerate(PREFERRED)}
    return sorted(fonts, key=lambda font: (rank.get(font.family, len(rank)), font.family))


@functools.cache
def _add_unlisted_fonts() -> bool:
    """Add fonts that matplotlib's cached list lacks. Whether there were any, the first time."""
    listed = {entry.fname for entry in font_manager.fontManager.ttflist}
    found = [*_packaged_fonts(), *font_manager.findSystemFonts()]
    added = False
    for path in found:
        if path not in listed:
            added |= _add(path)
    return added


def _packaged_fonts() -> Iterator[str]:
    for package in FONT_PACKAGES:
        specification = importlib.util.find_spec(package)
        for folder in (specification and specification.submodule_search_locations) or ():
            for path in sorted(pathlib.Path(folder).rglob("*Sans*.[ot]tf")):
                yield str(path)


def _add(path: str) -> bool:
    try:
        font_manager.fontManager.addfont(path)
    except (OSError, RuntimeError):
        return False
    return True


@functools.lru_cache(maxsize=256)
def _characters(path: str, face: int) -> frozenset[int]:
    try:
        font = ft2font.FT2Font(path, face_index=face)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(font.get_charmap()) if font.scalable else frozenset()
