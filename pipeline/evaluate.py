"""Scores of the best model on the test split."""

import dataclasses
from typing import Any

import rich.console
import tensorflow as tf

from models.errors import UserError
from models.sequence_model import LossSums
from models.translation import TranslationModel
from pipeline.assembly import (
    build_model,
    configure_tensorflow,
    load_vocabularies,
    search_options,
)
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs
from pipeline.experiment import Experiment
from pipeline.monitor.counting import counting
from pipeline.prepare.manifest import load_manifest
from pipeline.scoring import score_translations, tokenizer_for
from pipeline.train.checkpoints import best_fingerprint, restore_best
from pipeline.train.validation import Losses, measure_losses
from pipeline.translator import Translator
from pipeline.workspace import Workspace, fingerprint, make_folder, write_json, write_text


def evaluate(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> dict[str, Any]:
    """Translate the test split and score it.

    Writes `scores/test.json`, and beside it the sources, references and hypotheses, a sentence
    a line.

    Args:
        experiment: The experiment.
        workspace: With prepared data and a trained model.
        console: Where progress and the table go.

    Returns:
        What `scores/test.json` holds.

    Raises:
        UserError: If the test split is empty, or there is no trained model of the experiment.
    """
    load_manifest(workspace, experiment)
    configure_tensorflow(experiment)
    shards = workspace.shards("test")
    ids, sources, references = read_pairs(shards)
    if not ids:
        raise UserError(
            f"{workspace.data}: the test split is empty; name data.test or data.hold_out.test in "
            f"the experiment and run `seqloom prepare` again"
        )
    vocabularies = load_vocabularies(experiment, workspace)
    model = build_model(experiment, vocabularies)
    step = restore_best(workspace, model)
    make_folder(workspace.scores)
    options = BatchOptions(experiment.train.batch_tokens, experiment.train.shuffle_pool)
    losses = measure_losses(_validation_step(model), shards, options, tf.distribute.get_strategy())
    translator = Translator(
        model, vocabularies, search_options(experiment), experiment.search.batch_size
    )
    with counting(console, "translating", len(ids), "sentences") as advance:
        hypotheses = translator(ids, advance)
    scores = score_translations(
        hypotheses,
        references,
        [len(each) for each in ids],
        tokenizer_for(experiment.data.target_language),
    )
    scores.table(console)
    report = {
        "fingerprint": evaluation_fingerprint(experiment, workspace),
        "checkpoint_step": step,
        "search": experiment.search.model_dump(),
        **_loss_report(losses),
        **dataclasses.asdict(scores),
    }
    for name, lines in (
        ("source", sources),
        ("reference", references),
        ("hypothesis", hypotheses),
    ):
        write_text(workspace.scores / f"test.{name}.txt", "".join(f"{x}\n" for x in lines))
    write_json(workspace.scores / "test.json", report)
    return report


def evaluation_fingerprint(experiment: Experiment, workspace: Workspace) -> str:
    """Of all that the scores depend on: data, weights and search."""
    manifest = load_manifest(workspace, experiment)
    return fingerprint(
        [manifest["fingerprint"], best_fingerprint(workspace), experiment.search.model_dump()]
    )


def _validation_step(model: TranslationModel):
    @tf.function(reduce_retracing=True)
    def validate(batch: tuple) -> LossSums:
        inputs, labels = batch
        return model.loss_sums(inputs, labels, tf.zeros([2], tf.int32), training=False)

    return validate


def _loss_report(losses: Losses) -> dict[str, float]:
    return {**dataclasses.asdict(losses), "perplexity": losses.perplexity}
