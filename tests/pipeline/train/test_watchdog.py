"""A worker that makes no progress ends."""

import threading
import time

import pytest

from pipeline.exit_status import RESTART
from pipeline.train import watchdog
from pipeline.train.watchdog import Watchdog

SECONDS = 0.5


@pytest.fixture
def ended(monkeypatch):
    """What the process would have ended with, once it would have."""
    statuses, event = [], threading.Event()

    def leave(status):
        statuses.append(status)
        event.set()

    monkeypatch.setattr(watchdog.os, "_exit", leave)
    return statuses, event


def test_one_that_does_nothing_asks_to_be_started_again(ended, capfd):
    statuses, event = ended
    with Watchdog(SECONDS, 3).watching():
        assert event.wait(60.0)
    assert statuses[0] == RESTART
    assert "worker 3: no step was done for 0.5 seconds" in capfd.readouterr().err


@pytest.mark.parametrize(
    "sign",
    [
        lambda dog: dog.on_train_batch_end(0),
        lambda dog: dog.on_test_begin(),
        lambda dog: dog.on_test_end(),
    ],
    ids=["step", "validation begins", "validation ends"],
)
def test_signs_of_progress_keep_it(ended, monkeypatch, sign):
    """By a clock of the test's own: ten times as long as nothing may happen."""
    statuses, _ = ended
    now = [0.0]
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: now[0])
    dog = Watchdog(SECONDS, 0)
    with dog.watching():
        for _ in range(20):
            now[0] += SECONDS / 2
            sign(dog)
            time.sleep(SECONDS / 10)
    assert statuses == []
