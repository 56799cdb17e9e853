"""Stages as the command runs them: with progress, TensorBoard and what is up to date left out."""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

import keras
import rich.console
import tensorflow as tf

from models.errors import UserError
from pipeline.evaluate import evaluate, evaluation_fingerprint
from pipeline.exit_status import RESTART
from pipeline.experiment import Experiment
from pipeline.export import export, is_exported
from pipeline.monitor.callbacks import build_callbacks
from pipeline.prepare.manifest import load_manifest
from pipeline.prepare.plan import list_splits
from pipeline.prepare.run import prepare
from pipeline.submit.contract import STAGES, Stage
from pipeline.train.replicas import Cluster
from pipeline.train.trainer import Trainer, TrainingOutcome
from pipeline.train.watchdog import Watchdog
from pipeline.workspace import Workspace, fingerprint, read_json

# What TensorFlow raises in a collective operation whose other side is gone.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)

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

    Of many workers the chief alone writes and prints.

    Args:
        experiment: The experiment.
        workspace: With prepared data.
        console: Where progress goes.

    Raises:
        SystemExit: With status 75, if it is to be started again to go on: a signal ended the
            training, or another worker was lost.
    """
    load_manifest(workspace, experiment)  # Before a folder is made for a run that cannot be.
    cluster = Cluster.of_environment()
    console.quiet = console.quiet or not cluster.is_chief
    watchdog = Watchdog(experiment.cluster.hang_seconds, cluster.index)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_asking_for_restart(cluster))
        scratch = stack.enter_context(_place_of(cluster, workspace))
        if cluster.workers > 1:
            stack.enter_context(watchdog.watching())
        trainer = Trainer(experiment, workspace, scratch)
        for unreadable in trainer.unreadable:
            console.print(f"{unreadable}; going on from step {trainer.step:,}")
        callbacks: list[keras.callbacks.Callback] = [watchdog]
        if cluster.is_chief:
            callbacks += build_callbacks(
                str(workspace.logs), trainer.total_steps, trainer.step, console=console
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
        raise SystemExit(RESTART)
    return outcome


def evaluate_stage(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> None:
    """Evaluate, by many workers where there are some.

    Args:
        experiment: The experiment.
        workspace: With a trained model.
        console: Where the scores go.

    Raises:
        SystemExit: With status 75, if another worker was lost.
    """
    with _asking_for_restart(Cluster.of_environment()):
        evaluate(experiment, workspace, console)


def export_stage(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> None:
    """Export; of many workers the chief alone does.

    Args:
        experiment: The experiment.
        workspace: With a trained model.
        console: Where the outcome goes.
    """
    if Cluster.of_environment().is_chief:
        export(experiment, workspace, console)


def run_stages(
    experiment: Experiment,
    workspace: Workspace,
    console: rich.console.Console,
    chosen: Sequence[Stage] = STAGES,
) -> None:
    """Prepare, train, evaluate and export; a stage whose inputs have not changed is left out.

    So is evaluating where the experiment has no test split.

    Args:
        experiment: The experiment.
        workspace: Its workspace.
        console: Where the stages report.
        chosen: The stages that are run, in their order.

    Raises:
        UserError: If many workers were to run many stages.
    """
    workers = Cluster.of_environment().workers
    if workers > 1 and len(chosen) > 1:
        raise UserError(
            f"TF_CONFIG names {workers} workers, and not all stages are run by many; start each "
            f"by itself (--stage), or have `seqloom submit --workers {workers}` start them"
        )
    for stage in chosen:
        _NEEDED[stage](experiment, workspace, console)


def _prepare_if_needed(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> None:
    if _is_prepared(experiment, workspace):
        console.print(f"prepare: up to date, {workspace.data}")
    else:
        prepare(experiment, workspace, console)


def _go_on_training(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> None:
    train_stage(experiment, workspace, console)


def _evaluate_if_needed(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> None:
    if "test" not in list_splits(experiment.data):
        console.print("evaluate: left out, since neither data.test nor data.hold_out.test is given")
    elif _is_evaluated(experiment, workspace):
        console.print(f"evaluate: up to date, {workspace.scores}")
    else:
        evaluate_stage(experiment, workspace, console)


def _export_if_needed(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> None:
    if is_exported(experiment, workspace):
        console.print(f"export: up to date, {workspace.export}")
    else:
        export_stage(experiment, workspace, console)


_NEEDED: dict[Stage, Callable[[Experiment, Workspace, rich.console.Console], None]] = {
    "prepare": _prepare_if_needed,
    "train": _go_on_training,
    "evaluate": _evaluate_if_needed,
    "export": _export_if_needed,
}


@contextlib.contextmanager
def _place_of(cluster: Cluster, workspace: Workspace) -> Iterator[pathlib.Path | None]:
    """The chief's claim to the workspace, or a scratch folder of another worker's."""
    if cluster.is_chief:
        with workspace.alone("train"):
            yield None
    else:
        # Whoever is killed leaves a checkpoint behind: the next start of the same worker's has it.
        prefix = f"seqloom-worker-{fingerprint([str(workspace.root.absolute()), cluster.index])}-"
        for left in pathlib.Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield pathlib.Path(folder)


@contextlib.contextmanager
def _asking_for_restart(cluster: Cluster) -> Iterator[None]:
    """End at once where another worker is lost: TensorFlow's own end would wait for it."""
    try:
        yield
    except _LOST as error:
        if cluster.workers == 1:
            raise
        print(
            f"seqloom: worker {cluster.index}: another worker was lost "
            f"({type(error).__name__}); start all workers again, and a training goes on from the "
            f"last checkpoint",
            file=sys.stderr,
            flush=True,
        )
        os._exit(RESTART)


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
