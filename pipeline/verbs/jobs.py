"""Verbs that hand jobs to a launcher and look after them."""

import sys
from typing import Annotated

import typer

from models.errors import UserError
from pipeline.verbs.options import (
    NOTHING,
    ExperimentFile,
    Overrides,
    StageName,
    console,
    example,
    load,
)

app = typer.Typer()

JobName = Annotated[
    str, typer.Argument(metavar="[JOB]", help="The job, or how its name begins; else the newest.")
]


@app.command(epilog=example("seqloom submit configs/demo.yaml --to local --workers 2 --follow"))
def submit(
    experiment: ExperimentFile,
    overrides: Overrides = NOTHING,
    to: Annotated[
        str | None, typer.Option(help="local, slurm or kubernetes; the experiment's if left out.")
    ] = None,
    stage: StageName = "run",
    workers: Annotated[
        int | None, typer.Option(help="Processes that train; the experiment's if left out.")
    ] = None,
    gpus_per_worker: Annotated[
        int | None, typer.Option(help="GPUs of each; the experiment's if left out.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be started, and start nothing.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show the job's lines until it has ended.")
    ] = False,
) -> None:
    """Hand stages over to run here in the background, on Slurm or on Kubernetes."""
    given = {"to": to, "workers": workers, "gpus_per_worker": gpus_per_worker}
    settings = [f"submit.{key}={value}" for key, value in given.items() if value is not None]
    from pipeline.submit.jobs import list_jobs, make_job, stages_of, submit_job
    from pipeline.submit.members import make_launcher
    from pipeline.submit.overlap import refuse_overlap

    loaded, workspace = load(experiment, [*overrides, *settings])
    launcher = make_launcher(loaded.submit.to, loaded.submit)
    job = make_job(loaded, stages_of(stage), launcher.jobs_at_urls)
    if dry_run:
        typer.echo(launcher.plan(job))
        return
    refuse_overlap(job, list_jobs(workspace))
    handle = submit_job(loaded, job, loaded.submit.to, launcher)
    console().print(
        f"Job {job.id} is submitted; `seqloom jobs`, `seqloom logs` and `seqloom cancel` with "
        f"{experiment} show and end it"
    )
    if follow:
        from pipeline.submit.following import follow_job

        sys.exit(follow_job(handle, launcher))


@app.command(epilog=example("seqloom jobs configs/demo.yaml"))
def jobs(experiment: ExperimentFile, overrides: Overrides = NOTHING) -> None:
    """List the jobs of an experiment's workspace, and how they stand."""
    from pipeline.submit.following import overview
    from pipeline.submit.jobs import list_jobs

    _, workspace = load(experiment, overrides)
    handles = list_jobs(workspace)
    if not handles:
        console().print(f"No job was submitted for {workspace.root}")
        return
    console().print(overview(handles))


@app.command(epilog=example("seqloom logs configs/demo.yaml --follow"))
def logs(
    experiment: ExperimentFile,
    job: JobName = "",
    overrides: Overrides = NOTHING,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until the job has ended.")
    ] = False,
) -> None:
    """Print what a job's processes have printed."""
    from pipeline.submit.following import follow_job
    from pipeline.submit.jobs import find_job
    from pipeline.submit.members import launcher_of

    handle = find_job(load(experiment, overrides)[1], job)
    launcher = launcher_of(handle)
    if follow:
        sys.exit(follow_job(handle, launcher))
    for line in launcher.logs(handle, follow=False):
        typer.echo(line)


@app.command(epilog=example("seqloom cancel configs/demo.yaml 20261130-085743-62eb"))
def cancel(
    experiment: ExperimentFile,
    job: JobName = "",
    overrides: Overrides = NOTHING,
) -> None:
    """End a job; a training saves a checkpoint first."""
    from pipeline.submit.contract import ENDED
    from pipeline.submit.jobs import find_job
    from pipeline.submit.members import launcher_of

    handle = find_job(load(experiment, overrides)[1], job)
    launcher = launcher_of(handle)
    state = launcher.status(handle).state
    if state in ENDED:
        raise UserError(f"job {handle.job.id} has already ended: it is {state}")
    launcher.cancel(handle)
    ended = launcher.status(handle).state in ENDED
    said = "is cancelled" if ended else "is told to end, and is cancelled when it has"
    console().print(f"Job {handle.job.id} {said}")
