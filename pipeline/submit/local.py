"""Jobs as processes of this machine."""

import contextlib
import fcntl
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from models.errors import UserError
from pipeline.submit.contract import ENDED, Job, JobHandle, Launcher, Stage, Status
from pipeline.submit.gang import shell_line, variables_of_workers
from pipeline.submit.log_files import JOB_LOG, read_logs
from pipeline.submit.python import module_command, python_path
from pipeline.submit.supervisor import STATUS_FILE
from pipeline.workspace import read_json, write_json

_POLL_SECONDS = 0.1
_SECONDS_TO_REPORT = 15.0


class LocalLauncher(Launcher):
    """Runs a job here, in the background, under a process that looks after it.

    That process holds a lock on the job's folder as long as it lives, which is how others know
    that it does. If it is killed the stages' processes are asked to end.
    """

    def plan(self, job: Job) -> str:
        """The command of each process; ports are chosen anew whenever a stage is started."""
        path = shlex.quote(python_path())
        lines = [f"cd {shlex.quote(str(job.directory))}", f"export PYTHONPATH={path}"]
        for stage in job.stages:
            lines += ["", *_plan_stage(job, stage)]
        return "\n".join(lines)

    def submit(self, job: Job) -> dict[str, Any]:
        """Start the process that looks after the job."""
        claim = os.open(str(job.folder), os.O_RDONLY)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX)
            with (job.logs / JOB_LOG).open("ab") as log:
                supervisor = subprocess.Popen(
                    [*module_command("pipeline.submit.supervisor"), str(job.folder)],
                    cwd=job.directory,
                    env={**os.environ, "PYTHONPATH": python_path()},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(claim,),  # The lock is the child's too, and ends with it.
                )
        finally:
            os.close(claim)
        return {"host": socket.gethostname(), "process": supervisor.pid}

    def status(self, handle: JobHandle) -> Status:
        """What the process that looks after the job has written last."""
        # Asked first: a process that ends writes its last word before it lets go of the lock.
        alive = _is_looked_after(handle)
        path = handle.job.folder / STATUS_FILE
        if not path.exists():
            return Status("waiting") if alive else _lost(None, 0)
        value = read_json(path, "Delete its folder to forget the job.")
        status = Status(value["state"], value["stage"], value["restarts"], value["detail"])
        if alive or status.state in ENDED:
            return status
        return _lost(status.stage, status.restarts)

    def logs(self, handle: JobHandle, follow: bool) -> Iterator[str]:
        """Lines of the files that the processes write."""
        ended = (lambda: self.status(handle).state in ENDED) if follow else None
        return read_logs(handle.job.logs, ended)

    def cancel(self, handle: JobHandle) -> None:
        """Ask the process that looks after the job to end it, and wait until it has."""
        if not _is_looked_after(handle):
            return
        host = handle.native["host"]
        if host != socket.gethostname():
            raise UserError(f"job {handle.job.id} runs on {host}; cancel it there")
        with contextlib.suppress(ProcessLookupError):
            os.kill(handle.native["process"], signal.SIGTERM)
        deadline = time.monotonic() + handle.job.grace_seconds + _SECONDS_TO_REPORT
        while _is_looked_after(handle):
            if time.monotonic() > deadline:
                raise UserError(
                    f"job {handle.job.id}: process {handle.native['process']}, which looks after "
                    f"it, does not end; kill it, which ends the job's processes too"
                )
            time.sleep(_POLL_SECONDS)
        if not (path := handle.job.folder / STATUS_FILE).exists():
            # It had only just been started, and no stage yet: it has left no word of its own.
            write_json(path, Status("cancelled")._asdict())


def _plan_stage(job: Job, stage: Stage) -> list[str]:
    count = job.processes(stage)
    addresses = [f"127.0.0.1:PORT{worker}" for worker in range(count)] if count > 1 else []
    variables = variables_of_workers(job, stage, addresses)
    noun = "process" if count == 1 else "processes, together"
    return [
        f"# {stage}: {count} {noun}, started again {job.max_restarts} times at most",
        *(shell_line(job, stage, own, worker) for worker, own in enumerate(variables)),
    ]


def _is_looked_after(handle: JobHandle) -> bool:
    """Whether the process that looks after a job lives, which holds a lock then."""
    claim = os.open(str(handle.job.folder), os.O_RDONLY)
    try:
        fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(claim)
    return False


def _lost(stage: Stage | None, restarts: int) -> Status:
    detail = "the process that looked after it was killed; submit it again to go on"
    return Status("lost", stage, restarts, detail)
