"""Progress: plain lines when piped, a bar on a terminal."""

import gc
import io

import pytest
from rich.console import Console

from pipeline.monitor.progress import Pace, TrainingProgress, duration

SHOW_CURSOR = "\x1b[?25h"

FIGURES = {
    "loss": 3.8123,
    "perplexity": 45.23,
    "accuracy": 0.312,
    "learning_rate": 1e-3,
    "gradient_norm": 2.0,
    "source_tokens_per_second": 3000.0,
    "target_tokens_per_second": 3512.4,
}


class Clock:
    """Seconds that pass only when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def piped():
    return Console(file=io.StringIO(), force_terminal=False, width=60)


def terminal(width=80):
    return Console(file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False)


def lines(console):
    return console.file.getvalue().splitlines()


def test_a_report_is_one_line(clock):
    console = piped()
    progress = TrainingProgress(4000, console=console, clock=clock)
    progress.on_train_begin()
    clock.now += 100.0
    progress.on_train_batch_end(350, FIGURES)
    progress.on_train_end()
    assert lines(console) == [
        "step 350/4000  loss 3.812  ppl 45.2  acc 0.31  lr 1.0e-03  3,512 target tokens/s  "
        "17:23 left"
    ]


def test_steps_without_figures_print_nothing(clock):
    console = piped()
    progress = TrainingProgress(4000, console=console, clock=clock)
    progress.on_train_begin()
    for step in range(1, 50):
        progress.on_train_batch_end(step)
    progress.on_train_end()
    assert lines(console) == []


def test_a_validation_is_one_line(clock):
    console = piped()
    progress = TrainingProgress(4000, console=console, clock=clock)
    progress.on_train_begin()
    progress.on_test_begin()
    progress.on_test_end({"step": 1000, "loss": 3.1, "perplexity": 22.2, "bleu": 12.34})
    assert lines(console) == ["step 1000/4000  valid  loss 3.100  ppl 22.2  bleu 12.3"]


def test_a_resumed_run_starts_at_its_step(clock):
    console = piped()
    progress = TrainingProgress(4000, start_step=3000, console=console, clock=clock)
    progress.on_train_begin()
    clock.now += 10.0
    progress.on_train_batch_end(3100, {"loss": 1.0})
    progress.on_train_end()
    assert lines(console) == ["resuming at step 3000/4000", "step 3100/4000  loss 1.000  1:30 left"]


def test_the_first_interval_does_not_count_once_there_is_a_second(clock):
    pace = Pace(0, clock)
    clock.now += 100.0  # tracing
    pace.report(50)
    assert pace.seconds_left(1000) == pytest.approx(1900.0)
    clock.now += 10.0
    pace.report(100)
    assert pace.seconds_left(1000) == pytest.approx(180.0)
    assert pace.steps_per_second == pytest.approx(5.0)


def test_nothing_is_known_before_the_first_report(clock):
    assert Pace(0, clock).seconds_left(1000) is None
    assert Pace(0, clock).steps_per_second == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (0.2, "0:01"), (59, "0:59"), (130, "2:10"), (3725, "1:02:05")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("total", [400, 200_000])
def test_the_bar_fits_into_eighty_columns(clock, total):
    console = terminal()
    progress = TrainingProgress(total, console=console, clock=clock)
    progress.on_train_begin()
    clock.now += 100.0
    progress.on_train_batch_end(350, FIGURES)
    progress.on_train_end()
    shown = console.file.getvalue()
    assert f"350/{total}" in shown
    for part in ("left", "loss 3.812", "ppl 45.2", "3,512 tok/s"):
        assert part in shown
    assert "\n\n" not in shown


def test_validation_lines_stand_above_the_bar(clock):
    console = terminal()
    progress = TrainingProgress(400, console=console, clock=clock)
    progress.on_train_begin()
    progress.on_test_begin()
    progress.on_test_end({"step": 100, "bleu": 12.3})
    progress.on_train_end()
    assert "step 100/400  valid  bleu 12.3\n" in console.file.getvalue()


def test_the_bar_of_a_resumed_run_starts_at_its_step(clock):
    console = terminal()
    progress = TrainingProgress(400, start_step=300, console=console, clock=clock)
    progress.on_train_begin()
    progress.on_train_end()
    assert "300/400" in console.file.getvalue()


def test_a_run_that_fails_gets_its_cursor_back(clock):
    console = terminal()
    progress = TrainingProgress(400, console=console, clock=clock)
    progress.on_train_begin()
    assert SHOW_CURSOR not in console.file.getvalue()
    del progress
    gc.collect()
    assert SHOW_CURSOR in console.file.getvalue()
