"""Gradient flow as pictures: norm against distance, one a recurrent layer."""

from typing import Any

import matplotlib.ticker
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from models.gradient_flow import LayerFlow
from pipeline.monitor.event_log import EventLog, png_of
from pipeline.monitor.panel import Observation, Panel

DESCRIPTION = (
    "Spectral norm of the Jacobian from a sentence's last hidden state back to an earlier one, "
    "mean over sentences. A line that falls fast is a vanishing gradient."
)

_INCHES = (6.4, 4.0)
_DOTS_PER_INCH = 100
_SCALE = (1e-12, 1e12)
"""Where the scale ends; what is beyond is drawn there."""


class GradientFlow(Panel):
    """A picture a recurrent layer: how far back its state can be taught."""

    def show(self, observation: Observation, log: EventLog) -> None:
        """Add a picture a layer."""
        for flow in observation.gradient_flow:
            png, size = png_of(draw(flow))
            tag = f"gradient_flow/{flow.name}"
            log.picture(tag, png, size, observation.step, DESCRIPTION)


def draw(flow: LayerFlow) -> Figure:
    """Draw the norms of a layer on a logarithmic scale.

    Args:
        flow: Norms over distances from 1 on.

    Returns:
        A figure with an Agg canvas, ready to be saved.
    """
    figure = Figure(figsize=_INCHES, dpi=_DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    curves = {"hidden state": flow.hidden}
    if (flow.state != flow.hidden).any():
        curves["whole state"] = flow.state
    if flow.bound is not None:
        curves["bound"] = flow.bound
    plot(axes, curves)
    axes.set_title(flow.name, fontsize=10)
    return figure


def plot(axes: Axes, curves: dict[str, np.ndarray]) -> None:
    """Draw norms over distances from 1 on.

    Args:
        axes: Empty axes.
        curves: Norms [D] by their names; those whose names end in `bound` are dashed.
    """
    for name, norms in curves.items():
        style: dict[str, Any] = {"linestyle": "--"} if name.endswith("bound") else {"marker": "."}
        distances = np.arange(1, len(norms) + 1)
        axes.plot(distances, np.clip(norms, *_SCALE), label=name, **style)
    axes.set_yscale("log")
    axes.set_xlabel("distance $d$ in steps")
    axes.set_ylabel(r"$\|\partial h_t / \partial h_{t-d}\|$")
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.legend(loc="best", frameon=False)
