"""Attention pictures: which source pieces each target piece was read from."""

import unicodedata
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from pipeline.monitor.event_log import EventLog, png_of
from pipeline.monitor.fonts import lettering
from pipeline.monitor.panel import Observation, Panel

MOST_PIECES = 60
"""Pieces drawn a side; what is beyond is cut and the picture says so."""

_CELL_INCHES = 0.3
_SCALE_INCHES = 1.0
_DOTS_PER_INCH = 100
_FONT_SIZE = 10
_LONGEST_LABEL = 24
_WORD_START = "▁"


class AttentionPictures(Panel):
    """A heat map a sample: target pieces down, source pieces across."""

    def show(self, observation: Observation, log: EventLog) -> None:
        """Add a picture a sample."""
        samples = observation.samples
        if samples is None or samples.pictures:
            return
        for index, alignment in enumerate(samples.alignments):  # [T, S] each
            if alignment.size:
                tokens = samples.source_tokens[index], samples.target_tokens[index]
                png, size = png_of(draw(alignment, *tokens))
                log.picture(f"attention/{index + 1}", png, size, observation.step)


def draw(alignment: np.ndarray, source_tokens: list[str], target_tokens: list[str]) -> Figure:
    """Draw an attention matrix.

    Args:
        alignment: Weights in [0, 1], float [T, S].
        source_tokens: The S source pieces.
        target_tokens: The T target pieces.

    Returns:
        A figure with an Agg canvas, ready to be saved.

    Raises:
        ValueError: If the matrix has not a row a target piece and a column a source piece.
    """
    if alignment.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"alignment is {alignment.shape}, expected ({len(target_tokens)}, {len(source_tokens)})"
            ": a row a target token and a column a source token"
        )
    letters = lettering([*source_tokens, *target_tokens])
    columns = [_label(letters.spell(token)) for token in source_tokens[:MOST_PIECES]]
    rows = [_label(letters.spell(token)) for token in target_tokens[:MOST_PIECES]]
    cut = len(columns) < len(source_tokens) or len(rows) < len(target_tokens)
    figure, axes = _axes(len(rows), len(columns))
    image = axes.imshow(
        alignment[: len(rows), : len(columns)], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto"
    )
    _write_labels(axes, rows, columns, letters.families)
    _rule_cells(axes, len(rows), len(columns))
    if cut:
        axes.set_title(f"the first {MOST_PIECES} pieces", fontsize=_FONT_SIZE)
    _add_scale(figure, axes, image)
    return figure


def _label(token: str) -> str:
    return token if len(token) <= _LONGEST_LABEL else token[: _LONGEST_LABEL - 1] + "…"


def _axes(rows: int, columns: int) -> tuple[Figure, Axes]:
    """Axes that are the whole figure; labels stand outside, and saving takes them in."""
    size = (_CELL_INCHES * columns, _CELL_INCHES * rows)
    figure = Figure(figsize=size, dpi=_DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    return figure, figure.add_axes((0, 0, 1, 1))


def _add_scale(figure: Figure, axes: Axes, image: AxesImage) -> None:
    width, height = figure.get_size_inches()
    tall = min(1.0, _SCALE_INCHES / height)
    scale = axes.inset_axes((1 + 0.15 / width, 1 - tall, 0.12 / width, tall))
    figure.colorbar(image, cax=scale, ticks=[0, 0.5, 1])


def _write_labels(
    axes: Axes, rows: list[str], columns: list[str], families: tuple[str, ...]
) -> None:
    style: dict[str, Any] = {
        "fontfamily": list(families),
        "fontsize": _FONT_SIZE,
        "parse_math": False,
    }
    axes.xaxis.tick_top()
    upright = [_is_written_in_columns(label) for label in columns]
    labels = [
        "\n".join(label) if stacked else label
        for label, stacked in zip(columns, upright, strict=True)
    ]
    axes.set_xticks(range(len(columns)), labels, linespacing=1.0, **style)
    axes.set_yticks(range(len(rows)), rows, **style)
    for label, stacked in zip(axes.get_xticklabels(), upright, strict=True):
        label.set_rotation(0 if stacked else 90)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source")
    axes.set_ylabel("translation")


def _is_written_in_columns(text: str) -> bool:
    """Whether a text is of the East Asian scripts, which read from top to bottom too."""
    letters = text.removeprefix(_WORD_START)
    return bool(letters) and all(unicodedata.east_asian_width(each) in "WF" for each in letters)


def _rule_cells(axes: Axes, rows: int, columns: int) -> None:
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#dddddd", linewidth=0.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
