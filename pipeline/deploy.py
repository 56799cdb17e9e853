"""The stage that writes down how TensorFlow Serving runs an experiment's export elsewhere."""

import pathlib
from collections.abc import Iterable

import rich.console
import rich.table

from models.errors import UserError
from pipeline.experiment import Experiment
from pipeline.places import UrlPath
from pipeline.versions import newest_version
from pipeline.workspace import Workspace, folder_here, published_folder, write_text
from serving.deploy.contract import Deployment
from serving.deploy.members import make_target
from serving.deploy.memory import measure
from serving.server.url_folder import check_served

_MIB = 1 << 20


def deploy(
    experiment: Experiment,
    workspace: Workspace,
    target_name: str,
    out: pathlib.Path | None,
    console: rich.console.Console,
) -> pathlib.Path:
    """Measure the newest export, and write a folder that runs it.

    Args:
        experiment: The experiment.
        workspace: With an export.
        target_name: A key of `serving.deploy.members.TARGETS`.
        out: The folder; None for `deploy/<target>` in the workspace, or in `runs/<name>` if that
            is at a URL. One that an earlier deployment wrote is replaced.
        console: Where the outcome goes.

    Returns:
        The folder.

    Raises:
        UserError: If nothing was exported yet, there is no such target, or the folder holds
            what no deployment wrote.
    """
    target = make_target(target_name)
    options = experiment.deploy
    if options.max_replicas < options.replicas:
        raise UserError(
            f"deploy.replicas is {options.replicas} and deploy.max_replicas "
            f"{options.max_replicas}: the most must not be below the least"
        )
    base = (workspace.export / experiment.export.model_name).absolute()
    if isinstance(base, UrlPath):
        check_served(str(base), "workspace")
    version = newest_version(base)
    out = out or workspace.here.absolute() / "deploy" / target_name
    console.print(f"Loading {base / str(version)} to measure its memory")
    with folder_here(base / str(version)) as folder:
        measured = measure(folder, options.max_batch_size, options.cpus)
    deployment = Deployment(
        experiment.export.model_name,
        folder.parent,
        version,
        measured,
        **options.model_dump(),
        url=str(base) if isinstance(base, UrlPath) else None,
    )
    files = target.files(deployment)
    _refuse_foreign(out, files)
    with published_folder(out) as written:
        for path, text in files.items():
            write_text(written / path, text)
    console.print(_table(deployment))
    console.print(f"Wrote {len(files)} files to {out}; {out / 'README.md'} says how to start")
    return out


def _refuse_foreign(out: pathlib.Path, files: Iterable[str]) -> None:
    """Keep a folder that holds something else from being replaced."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; name a folder for the deployment")
    there = {str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir()}
    foreign = sorted(there - set(files))
    if foreign:
        raise UserError(
            f"{out}: holds {foreign[0]}, which is not of this deployment; name an empty folder, or "
            f"one that is not there yet"
        )


def _table(deployment: Deployment) -> rich.table.Table:
    measured = deployment.measured
    rows = {
        "with full batches": measured.peak_bytes,
        "of which the model": measured.model_bytes,
        "asked for": deployment.request_bytes,
        "limit, two versions": deployment.limit_bytes,
    }
    table = rich.table.Table(title="Memory of one server")
    table.add_column("")
    table.add_column("MiB", justify="right")
    for name, size in rows.items():
        table.add_row(name, f"{size / _MIB:,.0f}")
    return table
