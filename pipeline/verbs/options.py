"""What verbs share: arguments and options, and how they begin."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import rich.console
import typer

if TYPE_CHECKING:
    from pipeline.experiment import Experiment
    from pipeline.workspace import Workspace

# No path of pathlib's, which would make one slash of the two in a URL.
ExperimentFile = Annotated[
    str, typer.Argument(metavar="EXPERIMENT.yaml", help="The experiment, a file or its URL.")
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Override a key of the experiment; may stand many times.",
    ),
]
StageName = Annotated[
    str, typer.Option("--stage", help="prepare, train, evaluate or export; run for all in turn.")
]
NOTHING: list[str] = []


def example(command: str) -> str:
    """What the help of a verb ends with."""
    return f"Example: {command}"


def load(path: str, overrides: list[str]) -> "tuple[Experiment, Workspace]":
    """An experiment, by path or URL, and its workspace."""
    from pipeline.experiment_file import load_experiment, workspace_of

    experiment = load_experiment(path, overrides)
    return experiment, workspace_of(experiment)


def console() -> rich.console.Console:
    """Where stages report. Piped lines are not wrapped: a reader may be a program."""
    return rich.console.Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def quiet_tensorflow() -> None:
    """Import TensorFlow with its own lines kept off the terminal; true errors are raised.

    Some of the lines are written before any setting of its logging is read, and on a machine
    without a GPU some are worded as errors.
    """
    if os.environ.get("SEQLOOM_DEBUG"):
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    standard_error = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import tensorflow
        import tensorflow_text  # noqa: F401

        tensorflow.config.list_physical_devices()
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)
