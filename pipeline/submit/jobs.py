"""Jobs of a workspace: how they are made, kept and found."""

import datetime
import pathlib
import secrets
from collections.abc import Mapping
from typing import Any

import pydantic

from models.errors import UserError
from pipeline.experiment import Experiment, SubmitSection
from pipeline.experiment_file import dump_experiment, load_experiment, workspace_of
from pipeline.places import Place, UrlPath
from pipeline.submit.contract import STAGES, Job, JobHandle, Launcher, Stage
from pipeline.workspace import (
    Workspace,
    make_folder,
    read_json,
    remove_folder,
    write_json,
    write_text,
)

_HANDLES = pydantic.TypeAdapter(JobHandle)


def stages_of(name: str) -> tuple[Stage, ...]:
    """The stages that `--stage` means: one by its name, or all for `run`.

    Raises:
        UserError: For another name.
    """
    stages = tuple(each for each in STAGES if name in (each, "run"))
    if not stages:
        raise UserError(f"--stage {name}: expected one of {', '.join(STAGES)}, or run for all")
    return stages


def make_job(
    experiment: Experiment, stages: tuple[Stage, ...] = STAGES, at_url: bool = False
) -> Job:
    """A new job of an experiment; nothing is written.

    Args:
        experiment: The experiment.
        stages: To be run, in their order.
        at_url: Its folder may be at a URL, where the workspace is.
    """
    options = experiment.submit
    workspace = workspace_of(experiment)
    folder = (workspace.root if at_url else workspace.here).absolute()
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = f"{now}-{secrets.token_hex(2)}"
    return Job(
        id=name,
        folder=folder / "jobs" / name,
        directory=pathlib.Path.cwd(),
        workspace=workspace.root.absolute(),
        stages=stages,
        workers=options.workers,
        gpus_per_worker=options.gpus_per_worker,
        max_restarts=options.max_restarts,
        grace_seconds=options.grace_seconds,
        environment=options.environment,
    )


def submit_job(experiment: Experiment, job: Job, to: str, launcher: Launcher) -> JobHandle:
    """Hand a job to a launcher and record it.

    Args:
        experiment: Of the job.
        job: The job.
        to: The launcher's name.
        launcher: The launcher.

    Raises:
        UserError: If the launcher refuses; the job's folder is taken away again.
    """
    make_folder(job.logs)
    # The workspace is written out: a default one depends on the folder that the job starts in.
    settled = experiment.model_copy(update={"workspace": str(job.workspace)})
    write_text(job.experiment, dump_experiment(settled))
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    write_handle(JobHandle(job, to, now, {}))
    try:
        native = launcher.submit(job)
    except BaseException:
        remove_folder(job.folder)
        raise
    handle = JobHandle(job, to, now, native)
    write_handle(handle)
    return handle


def write_handle(handle: JobHandle) -> None:
    """Keep a handle in its job's folder."""
    write_json(handle.job.folder / "job.json", _HANDLES.dump_python(handle, mode="json"))


def list_jobs(workspace: Workspace) -> list[JobHandle]:
    """The jobs that were submitted for a workspace, oldest first."""
    folders = dict.fromkeys([workspace.here / "jobs", workspace.root / "jobs"])
    found = [read_handle(path) for folder in folders for path in folder.rglob("job.json")]
    return sorted(
        (each for each in found if _is_of(each.job, workspace)), key=lambda each: each.job.id
    )


def _is_of(job: Job, workspace: Workspace) -> bool:
    """Whether a job is of a workspace, whose folder may have been moved since."""
    if isinstance(job.workspace, UrlPath) or isinstance(workspace.root, UrlPath):
        return job.workspace == workspace.root
    return True


def find_job(workspace: Workspace, name: str = "") -> JobHandle:
    """A job of a workspace.

    Args:
        workspace: The workspace.
        name: The job's id, or how it begins; the newest job if empty.

    Raises:
        UserError: If there is no such job, or more than one.
    """
    handles = list_jobs(workspace)
    found = [each for each in handles if each.job.id.startswith(name)]
    if not found:
        wanted = f"no job {name!r}" if name else "no job"
        known = ", ".join(each.job.id for each in handles[-5:])
        raise UserError(
            f"{workspace.root / 'jobs'}: {wanted} was submitted"
            + (f"; the newest are {known}" if known else "; `seqloom submit` starts one")
        )
    if name and len(found) > 1:
        several = ", ".join(each.job.id for each in found)
        raise UserError(f"{name!r} begins the names of several jobs: {several}; write more of it")
    return found[-1]


def options_of(job: Job) -> SubmitSection:
    """The section `submit` that a job was submitted with."""
    return load_experiment(job.experiment).submit


def read_handle(path: Place) -> JobHandle:
    """The handle that a job's folder keeps."""
    value: Mapping[str, Any] = read_json(path, "Delete its folder to forget the job.")
    try:
        return _HANDLES.validate_python(value)
    except pydantic.ValidationError as error:
        detail = error.errors()[0]
        place = ".".join(map(str, detail["loc"]))
        raise UserError(
            f"{path}: {place}: {detail['msg'].lower()}; it was written by another version. Delete "
            f"its folder to forget the job"
        ) from None
