"""The launchers by name."""

from models.errors import UserError
from pipeline.experiment import SubmitSection
from pipeline.submit.contract import JobHandle, Launcher
from pipeline.submit.jobs import options_of
from pipeline.submit.kubernetes import KubernetesLauncher
from pipeline.submit.local import LocalLauncher
from pipeline.submit.slurm import SlurmLauncher

LAUNCHERS: dict[str, type[Launcher]] = {
    "local": LocalLauncher,
    "slurm": SlurmLauncher,
    "kubernetes": KubernetesLauncher,
}


def make_launcher(name: str, options: SubmitSection) -> Launcher:
    """A launcher by its name.

    Args:
        name: A key of `LAUNCHERS`; the experiment allows no other.
        options: The experiment's section `submit`.
    """
    return LAUNCHERS[name](options)


def launcher_of(handle: JobHandle) -> Launcher:
    """The launcher that a job was submitted to.

    Raises:
        UserError: If it never was, because submitting it was interrupted.
    """
    if not handle.native:
        raise UserError(
            f"submitting job {handle.job.id} was interrupted; delete {handle.job.folder}"
        )
    return make_launcher(handle.to, options_of(handle.job))
