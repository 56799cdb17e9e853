"""Ending a run early, on all workers after the same step."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any, Literal, get_args

import tensorflow as tf

from pipeline.train.replicas import Replicas

Reason = Literal["signal", "callback"]
REASONS: tuple[Reason, ...] = get_args(Reason)


class Stopping:
    """Who asks a run to end, and whether it does.

    A worker's wish travels with a step's gradients. It is heard after the step that follows, so
    that no worker waits for a step's numbers before it begins the next one.

    Args:
        replicas: Of the run.
    """

    def __init__(self, replicas: Replicas):
        self._replicas = replicas
        self._asked: set[Reason] = set()
        self._summed: tf.Tensor | None = None  # float32 [reasons], of the step before
        self._agreed: Reason | None = None

    def ask(self, reason: Reason) -> None:
        """Ask for the end after the current step, or, of many workers, the next but one."""
        self._asked.add(reason)

    def wishes(self) -> Any:
        """What this worker adds to a step; None where there is nobody to agree with."""
        if self._replicas.cluster.workers == 1:
            return None
        return self._replicas.of_worker(
            [float(each in self._asked) for each in REASONS], tf.float32
        )

    def hear(self, asked: Any) -> None:
        """Take note of what a step reports of all wishes."""
        if self._summed is not None:
            self._agreed = self._agreed or _first(self._summed.numpy() > 0.0)
        if self._replicas.cluster.workers > 1:
            self._summed = self._replicas.strategy.experimental_local_results(asked)[0]

    @property
    def reason(self) -> Reason | None:
        """Why the run ends now; None if it goes on."""
        if self._replicas.cluster.workers == 1:
            return _first([each in self._asked for each in REASONS])
        return self._agreed


@contextlib.contextmanager
def stopping_on_signals(stopping: Stopping) -> Iterator[None]:
    """SIGTERM and SIGINT end the run, with a checkpoint."""

    def stop(*_: object) -> None:
        stopping.ask("signal")

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _first(true: Any) -> Reason | None:
    """The first reason that is so."""
    return next((reason for reason, so in zip(REASONS, true, strict=True) if so), None)
