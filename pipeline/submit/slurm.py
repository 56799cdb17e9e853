"""Slurm: a batch job a stage, each after the one before has succeeded."""

import contextlib
from collections.abc import Iterator
from typing import Any

from models.errors import UserError
from pipeline.submit.contract import ENDED, Job, JobHandle, Launcher, Stage, State, Status
from pipeline.submit.log_files import read_logs
from pipeline.submit.slurm_commands import sbatch, scancel, show_job
from pipeline.submit.slurm_script import outcome_path, stage_script

_ASK_SECONDS = 2.0
_STATES: dict[str, State] = {
    "PENDING": "waiting",
    "REQUEUED": "waiting",
    "REQUEUE_HOLD": "waiting",
    "SUSPENDED": "waiting",
    "CONFIGURING": "waiting",
    "RUNNING": "running",
    "COMPLETING": "running",
    "COMPLETED": "done",
    "CANCELLED": "cancelled",
}


class SlurmLauncher(Launcher):
    """Jobs of Slurm's, asked for and shown by its own commands."""

    def plan(self, job: Job) -> str:
        """The scripts, each with the command that queues it."""
        parts = []
        for position, stage in enumerate(job.stages):
            after = job.stages[position - 1] if position else None
            flags = " ".join(_after(f"NUMBER-OF-{after.upper()}")) if after else ""
            script = stage_script(job, stage, self.options.slurm)
            parts.append(f"sbatch --parsable {flags} <<'END'\n{script}END\n".replace("  ", " "))
        return "\n".join(parts)

    def submit(self, job: Job) -> dict[str, Any]:
        """Queue all stages."""
        numbers: dict[Stage, str] = {}
        try:
            for position, stage in enumerate(job.stages):
                before = numbers[job.stages[position - 1]] if position else None
                arguments = _after(before) if before else ()
                script = stage_script(job, stage, self.options.slurm)
                numbers[stage] = sbatch(script, arguments)
        except BaseException:
            with contextlib.suppress(UserError):
                scancel(numbers.values())
            raise
        return {"numbers": numbers}

    def status(self, handle: JobHandle) -> Status:
        """The first stage that is not done, or the last."""
        status = Status("lost")
        for stage in handle.job.stages:
            status = self._stage_status(handle, stage)
            if status.state != "done":
                break
        return status

    def logs(self, handle: JobHandle, follow: bool) -> Iterator[str]:
        """Lines of the files in the job's folder."""
        ended = (lambda: self.status(handle).state in ENDED) if follow else None
        return read_logs(handle.job.logs, ended, _ASK_SECONDS)

    def cancel(self, handle: JobHandle) -> None:
        """End what runs, by SIGTERM and half a minute later by force, and what waits."""
        numbers = handle.native["numbers"]
        # The last first, so that none starts in between.
        scancel([numbers[stage] for stage in reversed(handle.job.stages)])
        (handle.job.folder / "cancelled").touch()

    def _stage_status(self, handle: JobHandle, stage: Stage) -> Status:
        outcome = outcome_path(handle.job, stage)
        if outcome.exists():
            code, restarts = map(int, outcome.read_text().split())
            log = handle.job.logs / f"{stage}-0.log"
            detail = f"ended with exit status {code}; see {log}" if code else ""
            return Status("failed" if code else "done", stage, restarts, detail)
        number = handle.native["numbers"][stage]
        shown = show_job(number)
        if (handle.job.folder / "cancelled").exists() and _is_over(shown):
            return Status("cancelled", stage)
        if shown is None:
            return Status("lost", stage, 0, f"Slurm does not know its job {number} any more")
        state = _STATES.get(shown["JobState"], "failed")
        detail = f"{shown['JobState']}, {shown['Reason']}" if state != "running" else ""
        return Status(
            state, stage, int(shown["Restarts"]), f"Slurm's job {number} {detail}".strip()
        )


def _after(number: str) -> tuple[str, ...]:
    """Flags that make a job wait for another's success, and go if that cannot be."""
    return (f"--dependency=afterok:{number}", "--kill-on-invalid-dep=yes")


def _is_over(shown: dict[str, str] | None) -> bool:
    return shown is None or _STATES.get(shown["JobState"], "failed") in ENDED
