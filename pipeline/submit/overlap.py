"""Jobs that would disturb one another."""

from collections.abc import Iterable

from models.errors import UserError
from pipeline.submit.contract import ENDED, Job, JobHandle
from pipeline.submit.members import launcher_of


def refuse_overlap(job: Job, handles: Iterable[JobHandle]) -> None:
    """Hold a job to having no stage that another of its workspace has yet to end.

    The stages' own claims to the workspace would end the later of them only once it has begun,
    and do not reach from one machine to another on all shared folders.

    Args:
        job: To be submitted.
        handles: Jobs of the workspace.

    Raises:
        UserError: If there is such a job.
    """
    for handle in handles:
        shared = [stage for stage in job.stages if stage in handle.job.stages]
        if not shared:
            continue
        try:
            state = launcher_of(handle).status(handle).state
        except UserError:
            continue  # What it was submitted to cannot be asked from here.
        if state not in ENDED:
            raise UserError(
                f"{job.workspace}: job {handle.job.id}, which is {state}, has the same stages "
                f"({', '.join(shared)}); wait for its end, end it by `seqloom cancel`, or take "
                f"another workspace"
            )
