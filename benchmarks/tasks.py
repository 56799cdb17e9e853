"""How well each task is learned: experiments of configs/ through all stages, and their scores.

    SEQLOOM_DATA=/data python benchmarks/tasks.py --experiment demo --experiment demo-nce

Each is prepared, trained and scored on its test split as it is shipped, but for the settings that
an experiment's row tells and those given by --set. What is up to date in its workspace is left
out, so that a run that was broken off goes on, and one that is done shows its scores.
`benchmarks/babi.py` and `benchmarks/captioning.py` do so for those two.
"""

import os
import pathlib
import subprocess
import sys
from typing import Annotated, Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import rich.console
import rich.table
import typer

from models.errors import UserError
from pipeline.experiment import Experiment
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.stages import run_stages
from pipeline.workspace import Workspace, read_json

ROOT = pathlib.Path(__file__).parents[1]
NCE = ("train.loss.kind=nce", "train.loss.noise_words=2048")
PLAYS = "{data}/tinyshakespeare/input.txt"
CAPTIONS = "{data}/coco-mini/captions_val2017-full.json"


class Shipped(NamedTuple):
    """An experiment of `configs/`.

    Attributes:
        config: Its name there.
        settings: That it differs by.
        corpus: The script of `data/` that makes its corpus and the script's arguments, of which
            the last is what it makes. Empty if there is none to be made.
    """

    config: str
    settings: tuple[str, ...] = ()
    corpus: tuple[str, ...] = ()


EXPERIMENTS = {
    "demo": Shipped("demo"),
    "demo-nce": Shipped("demo", NCE),
    "multi30k": Shipped("multi30k"),
    "tagging-ewt": Shipped("tagging-ewt"),
    "genre-ewt": Shipped("genre-ewt"),
    "genre-ewt-flat": Shipped("genre-ewt", ("model.classification.pooling=attention",)),
    "lm-words": Shipped("lm-words"),
    "lm-words-nce": Shipped("lm-words", NCE),
    "lm-shakespeare": Shipped("lm-shakespeare"),
    "lm-tex": Shipped("lm-tex"),
    "summarisation": Shipped(
        "summarisation", (), ("build_summary_corpus.py", CAPTIONS, "runs/captions.jsonl")
    ),
    "dialogue": Shipped("dialogue", (), ("build_dialogue_corpus.py", PLAYS, "runs/plays.txt")),
    "easy-vqa": Shipped("easy-vqa", (), ("build_easy_vqa.py", "runs/easy-vqa-data")),
    "easy-vqa-generator": Shipped(
        "easy-vqa",
        ("model.visual_answering.form=generator", "model.decoder.units=64"),
        ("build_easy_vqa.py", "runs/easy-vqa-data"),
    ),
    "lip-reading": Shipped("lip-reading", (), ("build_mouths.py", "runs/mouths-data")),
    "mouth-frames": Shipped(
        "mouth-frames", (), ("build_mouths.py", "--share", "0.2", "runs/mouth-frames-data")
    ),
}

# In the order in which they are told, as far as a task has them.
SCORES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "accuracy": "accuracy",
    "right": "right",
    "character_error_rate": "CER",
    "macro_f1": "macro-F1",
    "perplexity": "perplexity",
}


def main(
    experiment: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(EXPERIMENTS)}; all if none.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of each.")] = 1,
    out: Annotated[
        pathlib.Path, typer.Option(help="Gets a workspace an experiment.")
    ] = pathlib.Path("runs/tasks"),
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, for each.")] = None,
) -> None:
    """Measure."""
    console = rich.console.Console(soft_wrap=True, width=110)
    table = rich.table.Table(title=f"Scores on test splits, seed {seed}")
    for heading in ("experiment", "best step", *SCORES.values()):
        left = heading == "experiment"
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    for name in experiment or EXPERIMENTS:
        found = _measure(name, [f"seed={seed}", f"workspace={out / name}", *(set_ or ())], console)
        told = (_told(found.get(score)) for score in SCORES)
        table.add_row(name, f"{found['checkpoint_step']:,}", *told)
        console.print(table)


def _measure(name: str, settings: list[str], console: rich.console.Console) -> dict[str, Any]:
    """What the evaluation of an experiment reported."""
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(EXPERIMENTS)}")
    shipped = EXPERIMENTS[name]
    if shipped.corpus:
        _build(*shipped.corpus)
    path = ROOT / "configs" / f"{shipped.config}.yaml"
    loaded = load_experiment(path, [*shipped.settings, *settings])
    workspace = workspace_of(loaded)
    _run(loaded, workspace, console)
    report = read_json(workspace.scores / "test.json", "Delete the workspace and run again.")
    # Scores of labels, tags and answers lie one deeper, and tell more than the loss's accuracy.
    judged = (part for part in report.values() if isinstance(part, dict) and "macro_f1" in part)
    return {**report, **next(judged, {})}


def _run(experiment: Experiment, workspace: Workspace, console: rich.console.Console) -> None:
    console.rule(str(workspace.root))
    run_stages(experiment, workspace, console)


def _build(script: str, *arguments: str) -> None:
    """Make a corpus where it is not yet."""
    if pathlib.Path(arguments[-1]).exists():
        return
    given = [each.format(data=_data()) if "{data}" in each else each for each in arguments]
    subprocess.run([sys.executable, ROOT / "data" / script, *given], check=True)


def _data() -> str:
    if "SEQLOOM_DATA" not in os.environ:
        raise UserError("SEQLOOM_DATA is not set; name the folder that holds the corpora")
    return os.environ["SEQLOOM_DATA"]


def _told(score: Any) -> str:
    """A number, or that of a score with its signature."""
    value = score["value"] if isinstance(score, dict) else score
    return "" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    typer.run(main)
