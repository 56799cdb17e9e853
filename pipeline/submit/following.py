"""Jobs as they are shown: a table of them, and one until it ends."""

from collections.abc import Iterable

import rich.table

from pipeline.submit.contract import JobHandle, Launcher, State
from pipeline.submit.members import launcher_of

_EXIT_STATUS: dict[State, int] = {"done": 0}


def follow_job(handle: JobHandle, launcher: Launcher) -> int:
    """Print a job's lines until it has ended, then how it ended.

    Args:
        handle: The job.
        launcher: That it was submitted to.

    Returns:
        The exit status of the command: 0 if the job is done, 1 otherwise.
    """
    for line in launcher.logs(handle, follow=True):
        print(line, flush=True)
    status = launcher.status(handle)
    said = f": {status.detail}" if status.detail else ""
    print(f"Job {handle.job.id} is {status.state}{said}", flush=True)
    return _EXIT_STATUS.get(status.state, 1)


def table(handles: Iterable[JobHandle]) -> rich.table.Table:
    """Jobs and how they stand now, a row each."""
    rows = rich.table.Table(box=None, pad_edge=False)
    for name in ("job", "to", "stages", "workers", "state", "stage", "restarts", ""):
        rows.add_column(name, overflow="fold")
    for handle in handles:
        job, status = handle.job, launcher_of(handle).status(handle)
        rows.add_row(
            job.id,
            handle.to,
            ", ".join(job.stages),
            str(job.workers),
            status.state,
            status.stage or "",
            str(status.restarts),
            status.detail,
        )
    return rows
