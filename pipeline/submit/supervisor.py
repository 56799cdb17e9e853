"""Looks after a job on this machine: a process of its own, which outlives the one that submits.

`python -m pipeline.submit.supervisor JOB_FOLDER` runs the job's stages in turn, starts a stage
again whose processes were killed, failed or asked for it, and keeps `status.json`.
"""

import contextlib
import pathlib
import signal
import sys
import time
from typing import Any

from pipeline.exit_status import DONE, MISTAKE, RESTART
from pipeline.submit.contract import Job, Stage, Status
from pipeline.submit.gang import Gang, failures
from pipeline.submit.jobs import read_handle
from pipeline.workspace import write_json

STATUS_FILE = "status.json"


class Supervisor:
    """One job, from its first stage to its end.

    Args:
        job: The job.
    """

    def __init__(self, job: Job):
        self._job = job
        self._gang: Gang | None = None
        self._cancelled = False

    def run(self) -> None:
        """Run the stages; SIGTERM ends them."""
        signal.signal(signal.SIGTERM, self._cancel)
        for stage in self._job.stages:
            status = self._run_stage(stage)
            if status.state != "done":
                break
        self._tell(status)

    def _run_stage(self, stage: Stage) -> Status:
        """How a stage ended at last."""
        restarts = 0
        while True:
            if self._cancelled:
                return Status("cancelled", stage, restarts)
            statuses = self._run_gang(stage, restarts)
            if self._cancelled:
                saved = all(each in (DONE, RESTART) for each in statuses)
                return Status("cancelled", stage, restarts, "" if saved else failures(statuses))
            if not any(statuses):
                return Status("done", stage, restarts)
            if MISTAKE in statuses:
                detail = f"{failures(statuses)}; its log says what to change"
                return Status("failed", stage, restarts, detail)
            if restarts == self._job.max_restarts:
                detail = f"{failures(statuses)}; started again {restarts} times"
                return Status("failed", stage, restarts, detail)
            asked = all(each in (DONE, RESTART) for each in statuses)
            self._say(
                f"{stage}: {failures(statuses)}; "
                + ("they ask to be started again" if asked else "all are started again")
                + f", for the {_ordinal(restarts + 1)} time of {self._job.max_restarts}"
            )
            restarts += 1

    def _run_gang(self, stage: Stage, restarts: int) -> list[int]:
        self._gang = Gang(self._job, stage)
        numbers = [each.pid for each in self._gang.processes]
        self._tell(Status("running", stage, restarts), numbers)
        self._say(f"{stage}: runs as {', '.join(f'process {number}' for number in numbers)}")
        if self._cancelled:  # By a signal that came before there was a gang to hand it on to.
            self._gang.terminate()
        return self._gang.wait()

    def _cancel(self, *_: object) -> None:
        self._cancelled = True
        if self._gang:
            self._gang.terminate()

    def _tell(self, status: Status, processes: list[int] | None = None) -> None:
        """Keep how the job stands for others to read.

        A full disk must not end what is looked after; the next change is written again.
        """
        value: dict[str, Any] = {**status._asdict(), "processes": processes or []}
        with contextlib.suppress(OSError):
            write_json(self._job.folder / STATUS_FILE, value)
        if status.state != "running":
            self._say(": ".join(filter(None, [status.stage, status.state, status.detail])))

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 % 10 != 1 else 0, "th")
    return f"{number}{ending}"


def main() -> None:
    """Entry point of the process."""
    Supervisor(read_handle(pathlib.Path(sys.argv[1]) / "job.json").job).run()


if __name__ == "__main__":
    main()
