"""How well bAbI's tasks are answered: each is trained and evaluated through the stages.

    SEQLOOM_DATA=/data python benchmarks/babi.py --task 1 --task 2

One experiment for all tasks, configs/babi.yaml; settings given by --set hold for all. With
--generate the answers are not chosen but written, by the model of translation.
"""

import os
import pathlib
import re
import time
from typing import Annotated, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import rich.console
import rich.table
import typer

from models.errors import UserError
from pipeline.evaluate import evaluate
from pipeline.experiment import Experiment
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.prepare.run import prepare
from pipeline.stages import train_stage

CONFIG = pathlib.Path(__file__).parents[1] / "configs" / "babi.yaml"

# What makes the experiment one of writing answers.
GENERATION = (
    "model.task=translation",
    "vocabulary.target_size=1000",
    "data.cleaning.max_length_ratio=1000",
    "model.decoder={units: 128}",
    "search={kind: greedy, max_length_factor: 0.1, batch_size: 64}",
    "train.best_metric=accuracy",
)


class Outcome(NamedTuple):
    """How a task went."""

    questions: int
    correct: int
    steps: int
    seconds: float  # of training, validations included


def main(
    task: Annotated[
        list[int] | None, typer.Option(help="Number; all that are there if none.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of each experiment.")] = 1,
    out: Annotated[pathlib.Path, typer.Option(help="Gets a workspace a task.")] = pathlib.Path(
        "runs/babi"
    ),
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting.")] = None,
    generate: Annotated[bool, typer.Option(help="Write answers.")] = False,
) -> None:
    """Measure."""
    console = rich.console.Console(soft_wrap=True)
    table = rich.table.Table(title=f"bAbI, 10,000 questions a task, seed {seed}")
    for heading in ("task", "questions", "right", "accuracy", "steps", "training s"):
        name = heading == "task"
        table.add_column(heading, justify="left" if name else "right", min_width=27 * name)
    settings = [f"seed={seed}", *(GENERATION if generate else ()), *(set_ or ())]
    for number, name in sorted(_tasks().items()):
        if task and number not in task:
            continue
        os.environ["BABI_TASK"] = name
        found = _measure(load_experiment(CONFIG, [*settings, f"workspace={out / name}"]), console)
        table.add_row(
            name,
            f"{found.questions:,}",
            f"{found.correct:,}",
            f"{found.correct / found.questions:.1%}",
            f"{found.steps:,}",
            f"{found.seconds:.0f}",
        )
        console.print(table)


def _tasks() -> dict[int, str]:
    """Names of the tasks that there are training files of, by number."""
    if "SEQLOOM_DATA" not in os.environ:
        raise UserError("SEQLOOM_DATA is not set; name the folder that holds babi-en-10k")
    folder = pathlib.Path(os.environ["SEQLOOM_DATA"], "babi-en-10k")
    found = (re.fullmatch(r"(qa(\d+)_.*)_train\.txt", path.name) for path in folder.iterdir())
    return {int(match[2]): match[1] for match in found if match}


def _measure(experiment: Experiment, console: rich.console.Console) -> Outcome:
    workspace = workspace_of(experiment)
    prepare(experiment, workspace, console)
    since = time.perf_counter()
    trained = train_stage(experiment, workspace, console)
    seconds = time.perf_counter() - since
    evaluate(experiment, workspace, console)
    answers, references = (
        (workspace.scores / f"test.{name}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        for name in ("hypothesis", "reference")
    )
    correct = sum(
        answer == reference for answer, reference in zip(answers, references, strict=True)
    )
    return Outcome(len(references), correct, trained.step, seconds)


if __name__ == "__main__":
    typer.run(main)
