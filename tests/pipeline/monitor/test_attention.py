"""Attention pictures: the right cell is dark, every piece is named, nothing is cut silently."""

import warnings

import numpy as np
import pytest

from pipeline.monitor import attention, fonts
from pipeline.monitor.attention import MOST_PIECES, draw
from pipeline.monitor.event_log import png_of


def labels(figure):
    axes = figure.axes[0]
    figure.canvas.draw()
    return (
        [label.get_text() for label in axes.get_xticklabels()],
        [label.get_text() for label in axes.get_yticklabels()],
    )


def test_rows_are_target_pieces_and_columns_source_pieces():
    alignment = np.array([[0.1, 0.2, 0.7], [0.8, 0.1, 0.1]])  # [2, 3]
    figure = draw(alignment, ["▁a", "▁b", "▁c"], ["▁x", "▁y"])
    columns, rows = labels(figure)
    assert (columns, rows) == (["▁a", "▁b", "▁c"], ["▁x", "▁y"])
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), alignment)


def test_the_attended_cell_is_the_dark_one():
    figure = draw(np.array([[0.0, 1.0], [0.0, 0.0]]), ["a", "b"], ["x", "y"])
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(int)  # [height, width, 3]
    height, width = pixels.shape[:2]

    def darkness(row, column):
        return 765 - pixels[height * (1 + 2 * row) // 4, width * (1 + 2 * column) // 4].sum()

    assert darkness(0, 1) > 500
    assert max(darkness(0, 0), darkness(1, 0), darkness(1, 1)) < 60


def test_a_matrix_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"alignment is \(2, 3\), expected \(3, 2\)"):
        draw(np.zeros([2, 3]), ["a", "b"], ["x", "y", "z"])


def test_characters_without_a_glyph_are_spelled_and_nothing_warns(monkeypatch):
    monkeypatch.setattr(fonts, "known_fonts", lambda: [])
    monkeypatch.setattr(fonts, "_add_unlisted_fonts", lambda: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw(np.ones([1, 1]), ["▁中文"], ["▁x"])
        columns, _ = labels(figure)
    assert columns == ["▁U+4E2DU+6587"]


def test_east_asian_pieces_are_written_from_top_to_bottom(monkeypatch):
    monkeypatch.setattr(
        attention, "lettering", lambda texts: fonts.Lettering((fonts.BUNDLED,), frozenset())
    )
    figure = draw(np.ones([1, 3]), ["▁中文", "中a", "a"], ["x"])
    axes = figure.axes[0]
    texts = [(label.get_text(), label.get_rotation()) for label in axes.get_xticklabels()]
    assert texts == [("▁\n中\n文", 0), ("中a", 90), ("a", 90)]


def test_dollar_signs_are_not_formulas():
    figure = draw(np.ones([1, 1]), ["$x_1$"], ["\\$"])
    columns, rows = labels(figure)
    assert (columns, rows) == (["$x_1$"], ["\\$"])
    assert png_of(figure)[0].startswith(b"\x89PNG")


def test_long_sentences_are_cut_and_the_picture_says_so():
    many = [f"p{number}" for number in range(MOST_PIECES + 5)]
    figure = draw(np.full([1, len(many)], 0.01), many, ["x"])
    columns, _ = labels(figure)
    assert len(columns) == MOST_PIECES
    assert str(MOST_PIECES) in figure.axes[0].get_title()


def test_long_pieces_are_shortened():
    columns, _ = labels(draw(np.ones([1, 1]), ["a" * 80], ["x"]))
    assert columns[0].endswith("…")
    assert len(columns[0]) < 30
