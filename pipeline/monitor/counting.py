"""Progress of work that is counted piece by piece."""

import contextlib
import time
from collections.abc import Callable, Iterator

import rich.console
import rich.progress

_SECONDS_BETWEEN_LINES = 10.0


@contextlib.contextmanager
def counting(
    console: rich.console.Console, title: str, total: int, unit: str
) -> Iterator[Callable[[int], None]]:
    """Show how far work has come: a bar on a terminal, a line now and then where piped.

    Args:
        console: Where.
        title: What is done.
        total: Pieces in all.
        unit: What a piece is called, in the plural.

    Yields:
        A function that is told how many more pieces are done.
    """
    if console.is_terminal:
        with _bar(console, unit) as bar:
            task = bar.add_task(title, total=total)
            yield lambda pieces: bar.advance(task, pieces)
        return
    lines = _Lines(console, title, total, unit)
    yield lines.advance
    lines.end()


class _Lines:
    """Plain lines, not more often than every few seconds, and one at the end."""

    def __init__(self, console: rich.console.Console, title: str, total: int, unit: str):
        self._console = console
        self._title = title
        self._total = total
        self._unit = unit
        self._done = 0
        self._started = self._told = time.monotonic()

    def advance(self, pieces: int) -> None:
        self._done += pieces
        now = time.monotonic()
        if now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            left = (self._total - self._done) * (now - self._started) / max(self._done, 1)
            self._tell(f"{self._rate(now):,.0f} {self._unit}/s  {left:.0f} s left")

    def end(self) -> None:
        now = time.monotonic()
        self._tell(f"{self._rate(now):,.0f} {self._unit}/s  done in {now - self._started:.1f} s")

    def _rate(self, now: float) -> float:
        return self._done / max(now - self._started, 1e-9)

    def _tell(self, rest: str) -> None:
        self._console.print(
            f"{self._title} {self._done}/{self._total}  {rest}", markup=False, soft_wrap=True
        )


def _bar(console: rich.console.Console, unit: str) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(bar_width=None),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TextColumn(unit),
        rich.progress.TimeRemainingColumn(),
        console=console,
        expand=True,
    )
