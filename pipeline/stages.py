"""Stages as the command runs them: with progress, TensorBoard and what is up to date left out."""

import rich.console

from models.errors import UserError
from pipeline.evaluate import evaluate, evaluation_fingerprint
from pipeline.experiment import Experiment
from pipeline.export import export, is_exported
from pipeline.monitor.callbacks import build_callbacks
from pipeline.prepare.manifest import load_manifest
from pipeline.prepare.plan import list_splits
from pipeline.prepare.run import prepare
from pipeline.train.trainer import Trainer, TrainingOutcome
from pipeline.workspace import Workspace, read_json

_REASONS = {
    "steps": "train.max_steps is reached",
    "epochs": "train.max_epochs is reached",
    "patience": "train.early_stopping.patience is used up",
    "callback": "a callback asked for it",
    "signal": "it was told to stop; run the same command to go on",
    "already finished": "it had already ended; raise the limit that ended it (train.max_steps, "
    "train.max_epochs or train.early_stopping.patience) to go on",
}


def train_stage(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> TrainingOutcome:
    """Train with a progress bar and TensorBoard logs.

    Args:
        experiment: The experiment.
        workspace: With prepared data.
        console: Where progress goes.

    Raises:
        SystemExit: With status 1, if a signal ended the training.
    """
    load_manifest(workspace, experiment)  # Before a folder is made for a run that cannot be.
    with workspace.alone("train"):
        trainer = Trainer(experiment, workspace)
        callbacks = build_callbacks(
            workspace.logs, trainer.total_steps, trainer.step, console=console
        )
        outcome = trainer.run(callbacks)
    best = (
        f"Best {experiment.best_metric} {outcome.best:.4g} at step {outcome.best_step:,}, in "
        f"{workspace.best}"
        if outcome.best_step
        else "There was no validation yet, and so no best model"
    )
    console.print(f"Training ended at step {outcome.step:,}: {_REASONS[outcome.reason]}. {best}")
    if outcome.reason == "signal":
        raise SystemExit(1)
    return outcome


def run_stages(experiment: Experiment, workspace: Workspace, console: rich.console.Console) -> None:
    """Prepare, train, evaluate and export; a stage whose inputs have not changed is left out.

    So is evaluating where the experiment has no test split.

    Args:
        experiment: The experiment.
        workspace: Its workspace.
        console: Where the stages report.
    """
    if _is_prepared(experiment, workspace):
        console.print(f"prepare: up to date, {workspace.data}")
    else:
        prepare(experiment, workspace, console)
    train_stage(experiment, workspace, console)
    if "test" not in list_splits(experiment.data):
        console.print("evaluate: left out, since neither data.test nor data.hold_out.test is given")
    elif _is_evaluated(experiment, workspace):
        console.print(f"evaluate: up to date, {workspace.scores}")
    else:
        evaluate(experiment, workspace, console)
    if is_exported(experiment, workspace):
        console.print(f"export: up to date, {workspace.export}")
    else:
        export(experiment, workspace, console)


def _is_prepared(experiment: Experiment, workspace: Workspace) -> bool:
    try:
        load_manifest(workspace, experiment)
    except UserError:
        return False
    return True


def _is_evaluated(experiment: Experiment, workspace: Workspace) -> bool:
    report = workspace.scores / "test.json"
    if not report.exists():
        return False
    before = read_json(report, "Delete it and run `seqloom evaluate` again.")
    return before.get("fingerprint") == evaluation_fingerprint(experiment, workspace)
