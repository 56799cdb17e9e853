"""The stage on an array of jobs: phase after phase, and one report of all of them."""

import abc
import pathlib
import pickle
import sys
from collections.abc import Callable

from pipeline.experiment import ClusterSection
from pipeline.prepare.job import Job
from pipeline.prepare.parts import PHASES, Plan
from pipeline.prepare.reading import Block

_LAST_WORDS = 2000


class Array(abc.ABC):
    """Contract of what runs many jobs of one command on machines that share a folder."""

    @abc.abstractmethod
    def run(
        self, command: list[str], count: int, logs: pathlib.Path, poll: Callable[[], None]
    ) -> None:
        """Run a command `count` times and return when all of them have ended.

        Whether it succeeds, fails or is interrupted, no job outlives the call.

        Args:
            command: Arguments, to which the index from 0 is added.
            count: How often.
            logs: Folder that receives `array-<index>.log`, what each wrote.
            poll: Called several times a second.
        """


class ArrayRun:
    """Runs the whole stage on an array.

    Args:
        cluster: The experiment's section.
        array: Of what the machines are.
    """

    def __init__(self, cluster: ClusterSection, array: Array):
        self._cluster = cluster.model_copy(update={"runner": "local"})
        self._count = cluster.array_jobs
        self._array = array

    def run(self, job: Job, blocks: list[Block], poll: Callable[[], None]) -> dict[str, int]:
        """Run it; the report is then at `job.report_path`.

        Args:
            job: The run.
            blocks: All blocks of all inputs.
            poll: Called several times a second.

        Returns:
            Nothing of Beam's counters: the report has the same numbers.

        Raises:
            RuntimeError: If a part fails.
        """
        plan = Plan(job, blocks, self._cluster, self._count)
        plan.write()
        for phase in PHASES:
            logs = job.logs / phase
            logs.mkdir()
            command = [sys.executable, "-P", "-m", "pipeline.prepare.part", str(plan.path), phase]
            self._array.run(command, plan.parts(phase), logs, poll)
            _check_done(plan, phase, logs)
        job.report_path.write_bytes(pickle.dumps(plan.report()))
        return {}


def _check_done(plan: Plan, phase: str, logs: pathlib.Path) -> None:
    """Hold the parts of a phase to having ended well, which their reports tell."""
    count = plan.parts(phase)
    failed = [index for index in range(count) if not plan.report_path(phase, index).exists()]
    if failed:
        log = logs / f"array-{failed[0]}.log"
        words = log.read_text(errors="replace")[-_LAST_WORDS:].strip() if log.exists() else ""
        raise RuntimeError(
            f"{len(failed)} of {count} jobs of the phase {phase} failed; the first of them, "
            f"{failed[0]}, wrote:\n{words or '(nothing)'}"
        )
