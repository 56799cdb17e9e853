"""Fonts: found where they are, and codes instead of boxes where they are not."""

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from pipeline.monitor import fonts
from pipeline.monitor.fonts import Font, lettering


@pytest.fixture
def make_font(tmp_path):
    """Builds a font file with a square for each of some characters."""

    def make(family, characters):
        pen = TTGlyphPen(None)
        pen.moveTo((0, 0))
        for point in ((0, 800), (800, 800), (800, 0)):
            pen.lineTo(point)
        pen.closePath()
        square = pen.glyph()
        names = [".notdef", *(f"uni{ord(each):04X}" for each in characters)]
        builder = FontBuilder(1000, isTTF=True)
        builder.setupGlyphOrder(names)
        builder.setupCharacterMap({ord(each): f"uni{ord(each):04X}" for each in characters})
        builder.setupGlyf({name: square for name in names})
        builder.setupHorizontalMetrics({name: (1000, 0) for name in names})
        builder.setupHorizontalHeader(ascent=800, descent=-200)
        builder.setupNameTable({"familyName": family, "styleName": "Regular"})
        builder.setupOS2()
        builder.setupPost()
        path = tmp_path / f"{family}.ttf"
        builder.save(path)
        return Font(family, str(path))

    return make


@pytest.fixture
def only(monkeypatch):
    """Pretends that the machine has these fonts beside the bundled one, and no others."""

    def set_fonts(*known):
        monkeypatch.setattr(fonts, "known_fonts", lambda: list(known))
        monkeypatch.setattr(fonts, "_add_unlisted_fonts", lambda: False)

    return set_fonts


def test_the_bundled_font_draws_latin_and_piece_marks(only):
    only()
    found = lettering(["▁Grüße", "ñ “quotes”"])
    assert found.families == (fonts.BUNDLED,)
    assert found.missing == frozenset()


def test_characters_of_no_font_are_spelled(only):
    only()
    found = lettering(["▁中文 a"])
    assert found.missing == {ord("中"), ord("文")}
    assert found.spell("▁中a") == "▁U+4E2Da"
    assert lettering(["🙂"]).spell("🙂") == "U+1F642"


def test_a_font_is_added_for_what_the_bundled_one_lacks(only, make_font):
    only(make_font("Some Latin", "ab"), make_font("Some Chinese", "中文"))
    found = lettering(["▁中文 a"])
    assert found.families == (fonts.BUNDLED, "Some Chinese")
    assert found.spell("▁中文 a") == "▁中文 a"


def test_several_fonts_share_the_work(only, make_font):
    only(make_font("A", "中"), make_font("B", "文"))
    found = lettering(["中文字"])
    assert found.families == (fonts.BUNDLED, "A", "B")
    assert found.missing == {ord("字")}


def test_preferred_families_come_first(only, make_font):
    only(make_font("Another", "中"), make_font("Noto Sans SC", "中"))
    assert lettering(["中"]).families == (fonts.BUNDLED, "Noto Sans SC")


def test_fonts_that_cannot_be_read_are_passed_over(only, tmp_path):
    path = tmp_path / "broken.ttf"
    path.write_bytes(b"not a font")
    only(Font("Broken", str(path)))
    assert lettering(["中"]).missing == {ord("中")}


def test_a_font_that_matplotlib_did_not_list_is_found(monkeypatch, make_font):
    font = make_font("Newly Installed", "\U00020bb7")
    monkeypatch.setattr(fonts.font_manager, "findSystemFonts", lambda: [font.path])
    manager = fonts.font_manager.fontManager
    # A machine may have a font for every letter there is.
    bundled = [each for each in manager.ttflist if each.name == fonts.BUNDLED]
    monkeypatch.setattr(manager, "ttflist", bundled)
    fonts._add_unlisted_fonts.cache_clear()
    try:
        found = lettering(["\U00020bb7"])
    finally:
        fonts._add_unlisted_fonts.cache_clear()
    assert "Newly Installed" in found.families
    assert not found.missing


def test_fonts_that_draw_boxes_for_everything_are_not_known():
    names = {font.family for font in fonts.known_fonts()}
    assert fonts.BUNDLED in names
    assert not any("Last Resort" in name for name in names)
