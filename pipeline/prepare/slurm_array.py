"""An array of Slurm's, one job a part."""

import os
import pathlib
import shlex
import time
from collections.abc import Callable

from pipeline.experiment.submit import SlurmOptions
from pipeline.prepare.array import Array
from pipeline.submit.python import python_path
from pipeline.submit.slurm_commands import header, is_queued, sbatch, scancel

_POLL_SECONDS = 0.2
_QUEUE_SECONDS = 2.0


class SlurmArray(Array):
    """Queues a phase as one array, and waits for it.

    Args:
        options: The experiment's section `submit.slurm`.
    """

    def __init__(self, options: SlurmOptions):
        self._options = options

    def run(
        self, command: list[str], count: int, logs: pathlib.Path, poll: Callable[[], None]
    ) -> None:
        """Run a command as an array."""
        number = sbatch(self.script(command, count, logs))
        try:
            _wait(number, poll)
        except BaseException:
            scancel([number])
            raise

    def script(self, command: list[str], count: int, logs: pathlib.Path) -> str:
        """The batch script of an array."""
        lines = [
            "#!/bin/bash",
            *header(self._options, f"seqloom-{command[-1]}"),
            f"#SBATCH --array=0-{count - 1}",
            "#SBATCH --ntasks=1",
            f"#SBATCH --output={logs}/array-%a.log",
            f"cd {shlex.quote(os.getcwd())} || exit 1",
            f"export PYTHONPATH={shlex.quote(python_path())}",
            f'exec {shlex.join(command)} "$SLURM_ARRAY_TASK_ID"',
        ]
        return "\n".join(lines) + "\n"


def _wait(number: str, poll: Callable[[], None]) -> None:
    asked = time.monotonic()
    while True:
        time.sleep(_POLL_SECONDS)
        poll()
        if time.monotonic() - asked > _QUEUE_SECONDS:
            if not is_queued(number):
                return
            asked = time.monotonic()
