"""The export stage: the best model becomes the next version of a servable."""

import contextlib
import pathlib
from typing import Any

import rich.console

from pipeline.assembly import configure_tensorflow
from pipeline.batches import read_pairs
from pipeline.best_model import BestModel, best_fingerprints, load_best
from pipeline.experiment import Experiment
from pipeline.places import Place, UrlPath
from pipeline.prepare.manifest import load_manifest
from pipeline.tasks.contract import Task
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import latest_best
from pipeline.versions import versions
from pipeline.workspace import (
    Workspace,
    fingerprint,
    published_folder,
    read_json,
    uploaded_folder,
    write_json,
)
from serving.export import export_service
from serving.graph_batching import GraphBatching
from serving.server.url_folder import MODEL_FILE

_ORIGIN = "assets.extra/seqloom.json"


def export(experiment: Experiment, workspace: Workspace, console: rich.console.Console) -> Place:
    """Export the best model as a new version, or an ensemble where `search.ensemble` names one.

    The version folder appears whole, by a rename, because a server loads it as soon as its
    name is there. At a URL, where folders cannot be renamed, the model's own file comes last.

    Args:
        experiment: The experiment.
        workspace: With prepared data and a trained model.
        console: Where the outcome goes.

    Returns:
        The version folder, `export/<model name>/<version>`, or its URL.

    Raises:
        UserError: If nothing was trained yet, another run cannot take part, or the linter refuses
            the model.
    """
    load_manifest(workspace, experiment)
    latest_best(workspace)
    with workspace.alone("export"):
        return _export(experiment, workspace, console)


def _export(experiment: Experiment, workspace: Workspace, console: rich.console.Console) -> Place:
    configure_tensorflow(experiment)
    task = make_task(experiment, workspace)
    best = load_best(task, workspace)
    service = task.service(best.model)
    base = workspace.export / experiment.export.model_name
    destination = base / str(max(versions(base), default=0) + 1)
    requests = service.warmup_requests(_warmup_texts(task, workspace))
    section = experiment.export.batching
    batching = GraphBatching(**section.model_dump()) if section else None
    with _published(destination) as folder:
        export_service(service, folder, experiment.export.model_name, requests, batching)
        write_json(folder / _ORIGIN, _origin(experiment, workspace, best))
    parts = [f"step {best.step:,}"]
    parts += [f"step {step:,} of {place}" for place, step in best.others.items()]
    console.print(f"Exported {' with '.join(parts)} to {destination}")
    return destination


def is_exported(experiment: Experiment, workspace: Workspace) -> bool:
    """Whether the newest version is of this experiment and its best weights."""
    base = workspace.export / experiment.export.model_name
    newest = base / str(max(versions(base), default=0))
    if not (newest / _ORIGIN).exists() or not (newest / MODEL_FILE).exists():
        return False
    before = read_json(newest / _ORIGIN, "Delete this version.")
    return before.get("fingerprint") == export_fingerprint(experiment, workspace)


def export_fingerprint(experiment: Experiment, workspace: Workspace) -> str:
    """Of all that an export depends on: data, weights, search and its own settings."""
    manifest = load_manifest(workspace, experiment)
    return fingerprint(
        [
            manifest["fingerprint"],
            *best_fingerprints(experiment, workspace),
            experiment.search.model_dump(),
            experiment.export.model_dump(),
        ]
    )


def _published(destination: Place) -> contextlib.AbstractContextManager[pathlib.Path]:
    if isinstance(destination, UrlPath):
        return uploaded_folder(destination, MODEL_FILE)
    return published_folder(destination)


def _origin(experiment: Experiment, workspace: Workspace, best: BestModel) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "checkpoint_step": best.step,
        **({"ensemble_steps": best.others} if best.others else {}),
        "fingerprint": export_fingerprint(experiment, workspace),
    }


def _warmup_texts(task: Task, workspace: Workspace) -> list[str]:
    """Texts of the valid split, or of the training split where there is none."""
    shards = workspace.shards("valid") or workspace.shards("train")
    return task.warmup_texts(read_pairs(shards, task.experiment.export.warmup_requests))
