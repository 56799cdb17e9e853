"""Attention over a picture: the picture, and where each word of its caption looked."""

import math

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from pipeline.monitor.event_log import EventLog, png_of
from pipeline.monitor.fonts import lettering
from pipeline.monitor.panel import Observation, Panel

MOST_WORDS = 39
"""Words drawn; what is beyond is cut and the picture says so."""

_COLUMNS = 5
_INCHES = 1.6
_DOTS_PER_INCH = 80
_FONT_SIZE = 10
_LONGEST_LABEL = 20
_WORD_START = "▁"
_DARKEST = 0.15  # of the light, where a word did not look


class AttentionMaps(Panel):
    """A picture a sample whose source is a picture: it, and beside it a map a word."""

    def show(self, observation: Observation, log: EventLog) -> None:
        """Add a picture a sample."""
        samples = observation.samples
        if samples is None or not samples.pictures:
            return
        parts = zip(samples.pictures, samples.alignments, samples.target_tokens, strict=True)
        for number, (pixels, maps, pieces) in enumerate(parts, 1):
            png, size = png_of(draw_maps(pixels, maps, pieces))
            log.picture(f"attention/{number}", png, size, observation.step)


def draw_maps(pixels: np.ndarray, maps: np.ndarray, pieces: list[str]) -> Figure:
    """Draw a picture and where each word looked.

    Each map is as bright as its own brightest cell, since most are spread over many cells.

    Args:
        pixels: Uint8 [H, W, 3].
        maps: Weights in [0, 1], float [T, R, C].
        pieces: The T pieces of the caption.

    Returns:
        A figure with an Agg canvas, ready to be saved.

    Raises:
        ValueError: If there is not a map a piece.
    """
    if maps.ndim != 3 or len(maps) != len(pieces):
        raise ValueError(f"maps are {maps.shape}, expected ({len(pieces)}, R, C): one a piece")
    words, maps = words_of(pieces, maps)
    cut = len(words) > MOST_WORDS
    words, maps = words[:MOST_WORDS], maps[:MOST_WORDS]
    letters = lettering(words)
    rows = math.ceil((1 + len(words)) / _COLUMNS)
    figure = Figure(figsize=(_INCHES * _COLUMNS, (_INCHES + 0.25) * rows), dpi=_DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    places = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for axes in places:
        axes.set_axis_off()
    style = {"fontsize": _FONT_SIZE, "fontfamily": list(letters.families), "parse_math": False}
    places[0].imshow(pixels)
    places[0].set_title(f"the first {MOST_WORDS} words" if cut else "", **style)
    for axes, word, weights in zip(places[1:], words, maps, strict=False):
        axes.imshow(lit(pixels, weights))
        axes.set_title(letters.spell(word)[:_LONGEST_LABEL], **style)
    figure.tight_layout(pad=0.4)
    return figure


def lit(pixels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A picture that is dark but where a word looked.

    Args:
        pixels: Uint8 [H, W, 3].
        weights: Float [R, C].

    Returns:
        Uint8 [H, W, 3].
    """
    shares = weights / max(float(weights.max()), 1e-9)  # [R, C]
    height, width = pixels.shape[:2]
    smooth = Image.fromarray(shares.astype(np.float32)).resize(
        (width, height), Image.Resampling.BILINEAR
    )
    light = _DARKEST + (1.0 - _DARKEST) * np.asarray(smooth)  # [H, W]
    return (pixels * light[..., np.newaxis]).astype(np.uint8)


def words_of(pieces: list[str], maps: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Words and their maps: pieces that are parts of words become one, which looks as they do.

    Args:
        pieces: The T pieces; those that begin a word begin with `▁`, if any does.
        maps: Float [T, R, C].

    Returns:
        The W words, and the means of their pieces' maps, float [W, R, C].
    """
    if not any(piece.startswith(_WORD_START) for piece in pieces):
        return pieces, maps
    starts = [
        index for index, piece in enumerate(pieces) if not index or piece.startswith(_WORD_START)
    ]
    ends = [*starts[1:], len(pieces)]
    spans = list(zip(starts, ends, strict=True))
    words = ["".join(pieces[a:b]).removeprefix(_WORD_START) for a, b in spans]
    return words, np.stack([maps[a:b].mean(0) for a, b in spans])
