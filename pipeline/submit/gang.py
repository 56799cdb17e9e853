"""Processes of one stage on this machine, which start and end together."""

import contextlib
import ctypes
import json
import math
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from pipeline.exit_status import DONE
from pipeline.places import Place
from pipeline.submit.contract import Job, Stage
from pipeline.submit.python import module_command, python_path

_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1  # of Linux's prctl


class Gang:
    """The processes of a stage, each in a process group of its own.

    Args:
        job: The job.
        stage: The stage.
    """

    def __init__(self, job: Job, stage: Stage):
        count = job.processes(stage)
        variables = variables_of_workers(job, stage, free_addresses(count) if count > 1 else ())
        self.processes: list[subprocess.Popen] = []
        self._grace = job.grace_seconds
        self._deadline = math.inf
        try:
            for worker, own in enumerate(variables):
                log = job.logs / f"{stage}-{worker}.log"
                self.processes.append(_start(job, stage, own, log))
        except BaseException:
            self.kill()
            raise

    def wait(self) -> list[int]:
        """Exit statuses, once all have ended; minus the signal's number for one that was killed.

        As soon as one of them has not succeeded the others, which cannot go on without it, are
        given the grace period to end by themselves, and are killed then.
        """
        while None in (ended := [each.poll() for each in self.processes]):
            if any(ended):  # Neither running (None) nor done (0).
                self._give_grace()
            if time.monotonic() >= self._deadline:
                break
            time.sleep(_POLL_SECONDS)
        self.kill()
        return [each.wait() for each in self.processes]

    def terminate(self) -> None:
        """Ask all of them to end; those that have not in the grace period are killed."""
        self._send(signal.SIGTERM)
        self._give_grace()

    def kill(self) -> None:
        """End what is left of them, and what they have started."""
        self._send(signal.SIGKILL)

    def _give_grace(self) -> None:
        if self._deadline == math.inf:
            self._deadline = time.monotonic() + self._grace

    def _send(self, number: signal.Signals) -> None:
        for each in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, number)


def variables_of_workers(job: Job, stage: Stage, addresses: Sequence[str]) -> list[dict[str, str]]:
    """What each process of a stage is given in its environment.

    Args:
        job: The job.
        stage: The stage.
        addresses: `host:port` of each process; none where there is only one.
    """
    variables = []
    for worker in range(job.processes(stage)):
        first = worker * job.gpus_per_worker
        gpus = ",".join(map(str, range(first, first + job.gpus_per_worker)))
        own = {**job.environment, "CUDA_VISIBLE_DEVICES": gpus or "-1"}
        if addresses:
            task = {"type": "worker", "index": worker}
            own["TF_CONFIG"] = json.dumps({"cluster": {"worker": [*addresses]}, "task": task})
        variables.append(own)
    return variables


def command_line(job: Job, stage: Stage) -> list[str]:
    """The command of each process of a stage."""
    return [*module_command("pipeline.cli"), *job.arguments(stage)]


def shell_line(job: Job, stage: Stage, variables: dict[str, str], worker: int) -> str:
    """The command of one process as one would type it."""
    given = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    log = shlex.quote(str(job.logs / f"{stage}-{worker}.log"))
    return " ".join([*given, shlex.join(command_line(job, stage)), f">> {log} 2>&1"])


def failures(statuses: Sequence[int]) -> str:
    """Which processes did not succeed, and how they ended."""
    told = [
        f"process {worker} "
        + (f"was ended by {signal.Signals(-status).name}" if status < 0 else f"exited {status}")
        for worker, status in enumerate(statuses)
        if status != DONE
    ]
    return ", ".join(told)


def _start(job: Job, stage: Stage, variables: dict[str, str], log: Place) -> subprocess.Popen:
    with log.open("ab") as file:
        # A process with a description of another cluster in its environment would wait for that.
        inherited = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
        return subprocess.Popen(
            command_line(job, stage),
            cwd=job.directory,
            env={
                **inherited,
                "PYTHONPATH": python_path(),
                "PYTHONUNBUFFERED": "1",
                **variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )


def _end_with_parent() -> None:
    """Let a process be asked to end when the one that looks after it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine that nobody listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
