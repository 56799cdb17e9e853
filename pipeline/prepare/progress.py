"""The progress that the command shows while workers reach their milestones."""

import contextlib
import time
from collections.abc import Iterator

import rich.console
import rich.progress

from pipeline.prepare.milestones import READING, SAMPLING, TRAINING, WRITING

_TITLES = {
    READING: "reading files",
    SAMPLING: "reading sample",
    TRAINING: "training vocabularies",
    WRITING: "writing records",
}


class Progress:
    """Shows the stages one after the other, and keeps the time each took.

    Args:
        console: Where. On a terminal a bar a stage, else a line as each one ends.

    Attributes:
        seconds: Time each finished stage took.
    """

    def __init__(self, console: rich.console.Console):
        self.seconds: dict[str, float] = {}
        self._console = console
        self._totals: dict[str, int] = {}
        self._tasks: dict[str, rich.progress.TaskID] = {}
        self._started = time.monotonic()
        self._bars = rich.progress.Progress(
            rich.progress.TextColumn("{task.description:<22}"),
            rich.progress.BarColumn(),
            rich.progress.TextColumn("{task.completed:>6.0f}/{task.total:.0f}"),
            rich.progress.TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    @contextlib.contextmanager
    def shown(self) -> Iterator["Progress"]:
        """Show the bars for as long as the block runs."""
        with self._bars:
            yield self

    def expect(self, totals: dict[str, int]) -> None:
        """Add stages that begin when all before them have ended.

        Args:
            totals: Pieces of work of each.
        """
        if self._current is None:
            self._started = time.monotonic()
        self._totals |= totals
        for stage, total in totals.items():
            self._tasks[stage] = self._bars.add_task(_TITLES[stage], total=total, start=False)
        self._begin()

    def update(self, counts: dict[str, int]) -> None:
        """Show how far the stages are.

        Args:
            counts: Pieces done, by stage.
        """
        while stage := self._current:
            self._bars.update(self._tasks[stage], completed=counts[stage])
            if counts[stage] < self._totals[stage]:
                return
            self._end(stage)
            self._begin()

    @property
    def _current(self) -> str | None:
        """The stage that runs: the first that has not ended."""
        return next((stage for stage in self._totals if stage not in self.seconds), None)

    def _begin(self) -> None:
        if self._current:
            self._bars.start_task(self._tasks[self._current])

    def _end(self, stage: str) -> None:
        now = time.monotonic()
        self.seconds[stage], self._started = now - self._started, now
        self._bars.stop_task(self._tasks[stage])
        if not self._console.is_terminal:
            self._console.print(f"{_TITLES[stage]}: done in {self.seconds[stage]:.1f} s")
