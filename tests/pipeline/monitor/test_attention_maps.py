"""Maps over pictures: bright where a word looked, a map a word, nothing cut silently."""

import numpy as np
import pytest

from pipeline.monitor.attention_maps import MOST_WORDS, AttentionMaps, draw_maps, lit, words_of
from pipeline.monitor.event_log import EventLog
from pipeline.monitor.panel import Observation, ValidationSamples


def one_cell(words, grid=(7, 7)):
    """Maps that look at one cell each, the first at the first."""
    maps = np.zeros((words, *grid), np.float32)
    for word in range(words):
        maps[word].ravel()[word % maps[word].size] = 1.0
    return maps


def drawn(figure):
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(int)  # [H, W, 3]


def test_a_map_is_bright_where_its_word_looked():
    grey = np.full([70, 70, 3], 200, np.uint8)
    maps = np.zeros([1, 7, 7], np.float32)
    maps[0, 1, 5] = 0.3
    figure = draw_maps(grey, maps, ["dog"])
    axes = figure.axes[1]
    assert axes.get_title() == "dog"
    pixels = drawn(figure)
    box = axes.get_window_extent()
    height = pixels.shape[0]

    def at(row, column):  # of a cell of the grid
        x = box.x0 + (column + 0.5) / 7 * box.width
        y = box.y1 - (row + 0.5) / 7 * box.height
        return pixels[int(height - y), int(x)].sum()

    others = [at(row, column) for row, column in np.ndindex(7, 7) if (row, column) != (1, 5)]
    assert at(1, 5) > max(others) + 50


def test_light_goes_by_the_brightest_cell():
    pixels = np.full([4, 4, 3], 100, np.uint8)
    weights = np.array([[0.1, 0.0], [0.05, 0.0]])
    corners = lit(pixels, weights)[[0, 0, -1, -1], [0, -1, 0, -1], 0]
    np.testing.assert_allclose(corners, [100, 15, 57.5, 15], atol=1)
    assert lit(pixels, np.zeros([2, 2])).max() == 15


def test_pieces_of_a_word_look_together():
    maps = one_cell(4)
    words, found = words_of(["▁a", "▁sea", "horse", "▁"], maps)
    assert words == ["a", "seahorse", ""]
    np.testing.assert_allclose(found, [maps[0], (maps[1] + maps[2]) / 2, maps[3]])
    assert words_of(["a", "dog"], maps[:2])[0] == ["a", "dog"]


def test_what_is_cut_is_told_and_what_does_not_fit_is_refused():
    pixels = np.zeros([8, 8, 3], np.uint8)
    words = [f"w{n}" for n in range(MOST_WORDS + 1)]
    figure = draw_maps(pixels, one_cell(len(words)), words)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == f"the first {MOST_WORDS} words" and words[-1] not in titles
    assert titles[1 : MOST_WORDS + 1] == words[:-1]
    assert draw_maps(pixels, one_cell(0), []).axes[0].get_title() == ""
    with pytest.raises(ValueError, match="one a piece"):
        draw_maps(pixels, one_cell(2), ["one"])


def test_tensorboard_shows_a_picture_a_sample(tmp_path, read_events):
    samples = ValidationSamples(
        sources=["a.jpg", "b.jpg"],
        references=["a dog", "a cat"],
        hypotheses=["a dog", "a dog"],
        source_tokens=[[], []],
        target_tokens=[["a", "dog"]] * 2,
        alignments=[one_cell(2)] * 2,
        pictures=[np.zeros([8, 8, 3], np.uint8)] * 2,
    )
    log = EventLog(tmp_path)
    AttentionMaps().show(Observation(3, samples=samples), log)
    AttentionMaps().show(Observation(4), log)
    log.close()
    events = read_events(tmp_path)
    assert events.tags() == {"attention/1", "attention/2"}
    assert events.steps("attention/2") == [3] and events.plugin("attention/2") == "images"
    assert events.values("attention/1")[0][2].startswith(b"\x89PNG")
