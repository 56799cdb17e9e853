"""Verbs that run stages, or show what they would run with and have written."""

import sys
from typing import Annotated

import typer

from pipeline.verbs.options import (
    NOTHING,
    ExperimentFile,
    Overrides,
    StageName,
    console,
    example,
    load,
    quiet_tensorflow,
)

app = typer.Typer()


@app.command(epilog=example("seqloom prepare configs/demo.yaml -- --direct_num_workers=4"))
def prepare(
    experiment: ExperimentFile,
    beam_flags: Annotated[
        list[str],
        typer.Argument(
            metavar="[-- BEAM FLAGS]", help="Passed to Beam, in place of the section cluster."
        ),
    ] = NOTHING,
    overrides: Overrides = NOTHING,
) -> None:
    """Turn corpora into records and vocabularies, by Beam."""
    from pipeline.experiment_file import beam_overrides
    from pipeline.prepare.run import prepare as stage

    stage(*load(experiment, [*overrides, *beam_overrides(beam_flags)]), console())


@app.command(epilog=example("seqloom train configs/demo.yaml --set train.batch_tokens=4096"))
def train(experiment: ExperimentFile, overrides: Overrides = NOTHING) -> None:
    """Train, or go on training from the last checkpoint."""
    quiet_tensorflow()
    from pipeline.stages import train_stage

    train_stage(*load(experiment, overrides), console())


@app.command(epilog=example("seqloom evaluate configs/demo.yaml --set search.beam_size=8"))
def evaluate(experiment: ExperimentFile, overrides: Overrides = NOTHING) -> None:
    """Answer the test split with the best model and score the answers."""
    quiet_tensorflow()
    from pipeline.stages import evaluate_stage

    evaluate_stage(*load(experiment, overrides), console())


@app.command(epilog=example("seqloom export configs/demo.yaml"))
def export(experiment: ExperimentFile, overrides: Overrides = NOTHING) -> None:
    """Write the best model as the next version of a servable."""
    quiet_tensorflow()
    from pipeline.stages import export_stage

    export_stage(*load(experiment, overrides), console())


@app.command(epilog=example("seqloom run configs/demo.yaml"))
def run(
    experiment: ExperimentFile, overrides: Overrides = NOTHING, stage: StageName = "run"
) -> None:
    """Prepare, train, evaluate and export, leaving out what is up to date."""
    from pipeline.submit.jobs import stages_of

    chosen = stages_of(stage)
    quiet_tensorflow()
    from pipeline.stages import run_stages

    run_stages(*load(experiment, overrides), console(), chosen)


@app.command(epilog=example("seqloom monitor configs/demo.yaml --port 6006"))
def monitor(
    experiment: ExperimentFile,
    overrides: Overrides = NOTHING,
    host: Annotated[str, typer.Option(help="Address to bind to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the page.")] = 6006,
) -> None:
    """Open TensorBoard on the run's logs."""
    from pipeline.monitor.tensorboard import open_tensorboard

    _, workspace = load(experiment, overrides)
    sys.exit(open_tensorboard(workspace.logs, host, port))


@app.command(epilog=example("seqloom show configs/demo.yaml --set model.cell=gru"))
def show(experiment: ExperimentFile, overrides: Overrides = NOTHING) -> None:
    """Print the experiment with every key, defaults included."""
    from pipeline.experiment_file import dump_experiment

    typer.echo(dump_experiment(load(experiment, overrides)[0]), nl=False)
