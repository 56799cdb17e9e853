"""The Keras callbacks that show a training run: on the terminal and in TensorBoard."""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import keras
from rich.console import Console

from models.errors import UserError
from models.gradient_flow import LayerFlow
from pipeline.monitor.attention import AttentionPictures
from pipeline.monitor.attention_maps import AttentionMaps
from pipeline.monitor.event_log import EventLog
from pipeline.monitor.gradient_flow import GradientFlow
from pipeline.monitor.histograms import Weights
from pipeline.monitor.panel import Observation, Panel, ValidationSamples
from pipeline.monitor.progress import TrainingProgress
from pipeline.monitor.scalars import Charts, Scalars
from pipeline.monitor.translations import Translations

PANELS: dict[str, Callable[[], Panel]] = {
    "scalars": Scalars,
    "charts": Charts,
    "translations": Translations,
    "attention": AttentionPictures,
    "attention_maps": AttentionMaps,
    "weights": Weights,
    "gradient_flow": GradientFlow,
}

DEFAULT_PANELS = (
    "scalars",
    "charts",
    "translations",
    "attention",
    "attention_maps",
    "gradient_flow",
)


class TensorBoardMonitor(keras.callbacks.Callback):
    """Writes TensorBoard's logs from the ordinary Keras hooks.

    - `on_train_batch_end(step, logs)`: `step` counts all updates made so far, across resumed
      runs; `logs` are figures since the last report. Without logs nothing is written.
    - `on_test_end(logs)`: figures of a validation. They stand at `logs["step"]` if that is
      given, else at the last step reported.
    - `on_samples(step, samples)`: translated validation sentences.
    - `on_gradient_flow(step, flows)`: norms of the recurrent layers' Jacobians.

    The log opens with the first hook and is flushed after each, so that a killed process
    loses nothing it reported.
    """

    def __init__(self, logs_dir: str | os.PathLike, panels: Sequence[Panel], start_step: int = 0):
        """Make the callback; nothing is written yet.

        Args:
            logs_dir: Folder of the event files.
            panels: What to show.
            start_step: Updates made before this process started.
        """
        super().__init__()
        self._logs_dir = logs_dir
        self._panels = tuple(panels)
        self._start_step = start_step
        self._step = start_step
        self._log: EventLog | None = None

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Open the event log."""
        self._log = self._log or EventLog(self._logs_dir, self._start_step)
        self._log.flush()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Show training figures."""
        self._step = int(batch)
        if logs:
            self._show(training=figures(logs))

    def on_test_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Show validation figures."""
        self._step = int((logs or {}).get("step", self._step))
        if logs:
            self._show(validation=figures(logs))

    def on_samples(self, step: int, samples: ValidationSamples) -> None:
        """Show translated validation sentences."""
        self._step = int(step)
        self._show(samples=samples)

    def on_gradient_flow(self, step: int, flows: Sequence[LayerFlow]) -> None:
        """Show how far back gradients reach."""
        self._step = int(step)
        self._show(gradient_flow=flows)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Close the event log."""
        if self._log:
            self._log.close()
            self._log = None

    def _show(self, **parts) -> None:
        self._log = self._log or EventLog(self._logs_dir, self._start_step)
        observation = Observation(self._step, self.model, **parts)
        for panel in self._panels:
            panel.show(observation, self._log)
        self._log.flush()


def figures(logs: Mapping[str, float]) -> dict[str, float]:
    """The figures of a report as plain numbers, without the step."""
    return {name: float(value) for name, value in logs.items() if name != "step"}


def build_callbacks(
    logs_dir: str | os.PathLike,
    total_steps: int,
    start_step: int = 0,
    panels: Sequence[str] = DEFAULT_PANELS,
    console: Console | None = None,
) -> list[keras.callbacks.Callback]:
    """Make the callbacks that show a run. Only the chief of several processes needs them.

    Args:
        logs_dir: Folder of TensorBoard's event files.
        total_steps: Updates the whole run makes at most.
        start_step: Updates made before this process started; 0 for a new run.
        panels: Names of what TensorBoard shows, from `PANELS`.
        console: Where progress is printed; standard output if None.

    Returns:
        The progress display and the TensorBoard monitor.

    Raises:
        UserError: If a panel is unknown.
    """
    shown = [_panel(name) for name in panels]
    return [
        TrainingProgress(total_steps, start_step, console),
        TensorBoardMonitor(logs_dir, shown, start_step),
    ]


def show_samples(
    callbacks: Iterable[keras.callbacks.Callback], step: int, samples: ValidationSamples
) -> None:
    """Hand translated validation sentences to those callbacks that show them.

    Args:
        callbacks: Any Keras callbacks.
        step: Updates made so far.
        samples: The sentences.
    """
    for callback in callbacks:
        if isinstance(callback, TensorBoardMonitor):
            callback.on_samples(step, samples)


def show_gradient_flow(
    callbacks: Iterable[keras.callbacks.Callback], step: int, flows: Sequence[LayerFlow]
) -> None:
    """Hand norms of the recurrent layers' Jacobians to those callbacks that show them.

    Args:
        callbacks: Any Keras callbacks.
        step: Updates made so far.
        flows: A flow a layer.
    """
    for callback in callbacks:
        if isinstance(callback, TensorBoardMonitor):
            callback.on_gradient_flow(step, flows)


def _panel(name: str) -> Panel:
    if name not in PANELS:
        nearest = difflib.get_close_matches(name, PANELS, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise UserError(f"panel {name!r}: expected one of {', '.join(PANELS)}.{hint}")
    return PANELS[name]()
