"""Jobs as they are shown: a table of them, and one until it ends."""

from collections.abc import Iterable

import rich.console
import rich.table
import rich.text

from models.errors import UserError
from pipeline.submit.contract import STAGES, JobHandle, Launcher, State
from pipeline.submit.members import launcher_of

_EXIT_STATUS: dict[State, int] = {"done": 0}
_INTERRUPTED = 130  # as shells have it


def follow_job(handle: JobHandle, launcher: Launcher) -> int:
    """Print a job's lines until it has ended, then how it ended.

    Args:
        handle: The job.
        launcher: That it was submitted to.

    Returns:
        The exit status of the command: 0 if the job is done, 130 if Ctrl-C ended the showing,
        which the job does not notice, and 1 otherwise.
    """
    try:
        for line in launcher.logs(handle, follow=True):
            print(line, flush=True)
    except KeyboardInterrupt:
        print(
            f"\nJob {handle.job.id} goes on; `seqloom logs --follow` shows it again, "
            f"`seqloom cancel` ends it",
            flush=True,
        )
        return _INTERRUPTED
    status = launcher.status(handle)
    said = f": {status.detail}" if status.detail else ""
    print(f"Job {handle.job.id} is {status.state}{said}", flush=True)
    return _EXIT_STATUS.get(status.state, 1)


def overview(handles: Iterable[JobHandle]) -> rich.console.Group:
    """Jobs and how they stand now, a row each, and below them what there is to say of some."""
    rows = rich.table.Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("job", "to", "stages", "workers", "state", "at", "restarts"):
        rows.add_column(name, no_wrap=True)  # Names are there to be copied.
    details = []
    for handle in handles:
        job = handle.job
        stages = "all" if job.stages == STAGES else ", ".join(job.stages)
        *cells, detail = _standing(handle)
        rows.add_row(job.id, handle.to, stages, str(job.workers), *cells)
        if detail:
            details.append(rich.text.Text(f"{job.id}: {detail}"))
    return rich.console.Group(rows, *details)


def _standing(handle: JobHandle) -> tuple[str, str, str, str]:
    """State, stage, restarts and details of a job, or why they are unknown.

    One backend that does not answer must not hide the jobs of others.
    """
    try:
        status = launcher_of(handle).status(handle)
    except UserError as error:
        return "unknown", "", "", str(error)
    return status.state, status.stage or "", str(status.restarts), status.detail
