"""Ends a worker that makes no progress, so that its gang is started again."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

import keras

from pipeline.exit_status import RESTART

_LOOKS = 20  # in the time that a worker may take, at least


class Watchdog(keras.callbacks.Callback):
    """Ends the process if nothing happens for too long.

    A worker that hangs holds all others up: they wait in a sum over replicas that never comes,
    and nothing fails. Each worker sees that for itself, whatever has started it.

    Args:
        seconds: From one step, or one end of a validation, to the next at most, and to the first.
        worker: Number of this worker, for the message.
    """

    def __init__(self, seconds: float, worker: int):
        super().__init__()
        self._seconds = seconds
        self._worker = worker
        self._last = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """A step is done."""
        self._last = time.monotonic()

    def on_test_begin(self, logs: dict | None = None) -> None:
        """A validation begins."""
        self._last = time.monotonic()

    def on_test_end(self, logs: dict | None = None) -> None:
        """A validation is done."""
        self._last = time.monotonic()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the block runs."""
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        self._last = time.monotonic()
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(min(1.0, self._seconds / _LOOKS)):
            if time.monotonic() - self._last > self._seconds:
                print(
                    f"seqloom: worker {self._worker}: no step was done for {self._seconds:g} "
                    f"seconds (cluster.hang_seconds), so a worker hangs; start all workers again "
                    f"to go on from the last checkpoint",
                    file=sys.stderr,
                    flush=True,
                )
                # The main thread waits in TensorFlow, where no exception reaches it.
                os._exit(RESTART)
