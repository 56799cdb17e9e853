"""Progress of training: a bar on a terminal, plain lines where output is piped."""

import math
import time
import weakref
from collections.abc import Callable, Mapping

import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column

_FORMATS = {
    "loss": "loss {:.3f}",
    "perplexity": "ppl {:.1f}",
    "accuracy": "acc {:.2f}",
    "bleu": "bleu {:.1f}",
    "chrf": "chrf {:.1f}",
    "learning_rate": "lr {:.1e}",
    "target_tokens_per_second": "{:,.0f} target tokens/s",
}
"""Figures that are printed, in this order, where a report holds them."""

_ON_THE_BAR = {
    "loss": _FORMATS["loss"],
    "perplexity": _FORMATS["perplexity"],
    "target_tokens_per_second": "{:,.0f} tok/s",
}
"""Figures beside the bar: few and short, so that they fit into eighty columns."""


class Pace:
    """How fast training goes, and how long it will still take.

    The interval up to the first report holds the tracing of the graph, so the time left is
    told from what came after it as soon as there is any. Validations count: the rest of the
    run has them too.
    """

    def __init__(self, step: int, clock: Callable[[], float]):
        """Start measuring.

        Args:
            step: Updates made so far.
            clock: Gives seconds.
        """
        self._clock = clock
        self._began = self._previous = self._latest = (step, clock())
        self._first: tuple[int, float] | None = None

    def report(self, step: int) -> None:
        """Note that `step` updates have been made by now."""
        self._previous, self._latest = self._latest, (step, self._clock())
        self._first = self._first or self._latest

    @property
    def steps_per_second(self) -> float:
        """Between the last two reports; 0 before the first."""
        return self._rate(self._previous, self._latest)

    def seconds_left(self, total_steps: int) -> float | None:
        """Seconds until `total_steps`, or None while nothing is known."""
        steady = self._began if self._latest == self._first else self._first
        rate = self._rate(steady or self._began, self._latest)
        return max(total_steps - self._latest[0], 0) / rate if rate else None

    @staticmethod
    def _rate(first: tuple[int, float], last: tuple[int, float]) -> float:
        steps, seconds = last[0] - first[0], last[1] - first[1]
        return steps / seconds if seconds > 0 else 0.0


class TrainingProgress(keras.callbacks.Callback):
    """Shows step, figures, pace and time left at every report of the trainer.

    It follows the same hooks as `TensorBoardMonitor`: `on_train_batch_end(step, logs)` with
    the count of all updates, and `on_test_end(logs)` after a validation.
    """

    def __init__(
        self,
        total_steps: int,
        start_step: int = 0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Make the callback; nothing is printed yet.

        Args:
            total_steps: Updates the whole run makes at most.
            start_step: Updates made before this process started.
            console: Where to print; standard output if None.
            clock: Gives seconds.
        """
        super().__init__()
        self._total = total_steps
        self._step = self._start = start_step
        self._console = console or Console()
        self._clock = clock
        self._pace = Pace(start_step, clock)
        self._bar: Progress | None = None

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Open the bar, at the step training resumes from."""
        self._pace = Pace(self._start, self._clock)
        if self._start:
            self._print(f"resuming at step {self._start}/{self._total}")
        if self._console.is_terminal:
            self._bar = _bar(self._console, self._total)
            self._bar.start()
            # A run that ends by an exception gets its cursor back all the same.
            weakref.finalize(self, self._bar.stop)
            self._task = self._bar.add_task(
                "train", total=self._total, completed=self._start, told=""
            )

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Move the bar, or print a line if there are figures."""
        self._step = int(batch)
        if not logs:
            return
        self._pace.report(self._step)
        if self._bar:
            parts = [*self._time_left(), *described(logs, _ON_THE_BAR), *self._rate()]
            told = "  ".join(parts)
            self._bar.update(self._task, completed=self._step, told=told)
        else:
            self._print("  ".join([self._place(), *described(logs, _FORMATS), *self._time_left()]))

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Say on the bar that a validation runs."""
        if self._bar:
            self._bar.update(self._task, description="validate", completed=self._step)

    def on_test_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Print a line of validation figures."""
        if self._bar:
            self._bar.update(self._task, description="train")
        if logs:
            self._step = int(logs.get("step", self._step))
            self._print("  ".join([self._place(), "valid", *described(logs, _FORMATS)]))

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Close the bar."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _place(self) -> str:
        return f"step {self._step}/{self._total}"

    def _rate(self) -> list[str]:
        rate = self._pace.steps_per_second
        return [f"{rate:.1f} steps/s"] if rate else []

    def _time_left(self) -> list[str]:
        seconds = self._pace.seconds_left(self._total)
        return [] if seconds is None else [f"{duration(seconds)} left"]


def described(figures: Mapping[str, float], formats: Mapping[str, str]) -> list[str]:
    """The figures that have a format, in the order of the formats."""
    return [form.format(float(figures[name])) for name, form in formats.items() if name in figures]


def duration(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`."""
    minutes, second = divmod(math.ceil(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def _bar(console: Console, total: int) -> Progress:
    counts = Column(no_wrap=True, min_width=2 * len(str(total)) + 1)
    return Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=8)),
        MofNCompleteColumn(table_column=counts),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
        TextColumn("{task.fields[told]}", markup=False, table_column=Column(no_wrap=True)),
        console=console,
        expand=True,
        refresh_per_second=2,
    )
