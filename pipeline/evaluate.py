"""Scores of the best model on the test split."""

import dataclasses
from typing import Any

import rich.console
import tensorflow as tf

from models.errors import UserError
from pipeline.assembly import configure_tensorflow
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs
from pipeline.best_model import best_fingerprints, load_best
from pipeline.experiment import Experiment
from pipeline.prepare.manifest import load_manifest
from pipeline.questions import answer_together
from pipeline.tasks.members import make_task
from pipeline.train.replicas import Cluster, Replicas, make_strategy
from pipeline.train.validation import Losses, measure_losses, validation_step
from pipeline.workspace import Workspace, fingerprint, make_folder, write_json, write_text

# What the labels of a task are, for the reader.
_UNITS = {
    "translation": "pieces",
    "language_model": "pieces",
    "classification": "texts",
    "tagging": "words",
    "answering": "questions",
    "captioning": "pieces",
    "visual_answering": "answers",
    "lip_reading": "pieces",
    "frame_tagging": "frames",
}


def evaluate(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> dict[str, Any]:
    """Answer the test split and score the answers.

    The answers are those of the best model, or of an ensemble where `search.ensemble` names one.

    Writes `scores/test.json`, and beside it what was asked, expected and answered, a record a
    line. Of many workers each answers a share, and the chief alone judges, writes and prints.

    Args:
        experiment: The experiment.
        workspace: With prepared data and a trained model.
        console: Where progress and the table go.

    Returns:
        What `scores/test.json` holds; nothing on a worker that is not the chief.

    Raises:
        UserError: If the test split is empty, or there is no trained model of the experiment.
    """
    load_manifest(workspace, experiment)
    configure_tensorflow(experiment)
    cluster = Cluster.of_environment()
    console.quiet = console.quiet or not cluster.is_chief
    # One process is one replica, whatever devices it has.
    strategy = make_strategy(cluster) if cluster.workers > 1 else tf.distribute.get_strategy()
    replicas = Replicas(strategy, cluster)
    shards = workspace.shards("test")
    pairs = read_pairs(shards)
    if not pairs.targets:
        raise UserError(
            f"{workspace.data}: the test split is empty; name data.test or data.hold_out.test in "
            f"the experiment and run `seqloom prepare` again"
        )
    task = make_task(experiment, workspace)
    with strategy.scope():
        best = load_best(task, workspace)
    options = BatchOptions(experiment.train.batch_tokens, experiment.train.shuffle_pool)
    batches = task.validation_batches(shards, options)
    losses = measure_losses(validation_step(best.model, strategy), batches, replicas)
    judge = task.judge(best.model)
    answers = answer_together(judge.questions(pairs), replicas, console)
    if not cluster.is_chief:
        return {}
    scored = judge.evaluate(pairs, answers, console)
    report = {
        "fingerprint": evaluation_fingerprint(experiment, workspace),
        "checkpoint_step": best.step,
        **({"ensemble_steps": best.others} if best.others else {}),
        **_loss_report(losses),
        **scored.scores,
    }
    console.print(
        f"Loss {losses.loss:.4f} nats, perplexity {losses.perplexity:.4g}, accuracy "
        f"{losses.accuracy:.2%} of {losses.tokens:,} {_UNITS[experiment.model.task]}"
    )
    report.update(judge.measure(losses, pairs, console))
    make_folder(workspace.scores)
    for name, lines in scored.lines.items():
        write_text(workspace.scores / f"test.{name}.txt", "".join(f"{x}\n" for x in lines))
    write_json(workspace.scores / "test.json", report)
    return report


def evaluation_fingerprint(experiment: Experiment, workspace: Workspace) -> str:
    """Of all that the scores depend on: data, weights and search."""
    manifest = load_manifest(workspace, experiment)
    return fingerprint(
        [
            manifest["fingerprint"],
            *best_fingerprints(experiment, workspace),
            experiment.search.model_dump(),
        ]
    )


def _loss_report(losses: Losses) -> dict[str, float]:
    return {**dataclasses.asdict(losses), "perplexity": losses.perplexity}
