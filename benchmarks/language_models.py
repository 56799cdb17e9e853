"""Validation perplexity of a word language model under each loss, and of the n-gram baseline.

    SEQLOOM_DATA=/data python benchmarks/language_models.py [--epochs 6] [--only nce]

All arms train the model of configs/lm-words.yaml on the same records for as many epochs, each in
a process of its own, and differ in one line of the experiment: the full softmax, sampled softmax
and noise-contrastive estimation with k noise words and several noises, and a window of n words in
place of the recurrent layer. Perplexity is that of the full softmax always, the best of the run's
validations. Noise-contrastive estimation should come within a tenth of the full softmax.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Annotated, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import rich.console
import rich.table
import typer

CONFIG = pathlib.Path(__file__).resolve().parents[1] / "configs" / "lm-words.yaml"
GOAL = 1.1


def main(
    epochs: Annotated[int, typer.Option(min=1, help="Of each arm.")] = 6,
    noise_words: Annotated[str, typer.Option(help="Counts k, comma-separated.")] = "64,256,1024",
    distortions: Annotated[
        str, typer.Option(help="Powers of the unigram counts.")
    ] = "0.5,0.75,1.0",
    windows: Annotated[str, typer.Option(help="Words n of an n-gram.")] = "3,5",
    only: Annotated[str, typer.Option(help="Arms whose names begin so, and full.")] = "",
    config: Annotated[pathlib.Path, typer.Option(help="The experiment.")] = CONFIG,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Of all arms.")] = None,
    out: Annotated[pathlib.Path | None, typer.Option(help="JSON, a line an arm.")] = None,
    arm: Annotated[str | None, typer.Option(hidden=True)] = None,
    folder: Annotated[pathlib.Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure, and print a table; or measure one arm."""
    common = [*(set_ or []), f"train.max_epochs={epochs}", "train.samples=0"]
    if arm is not None:
        print(json.dumps(measure(config, common + json.loads(arm), folder)))
        return
    arms = list_arms(*(part.split(",") for part in (noise_words, distortions, windows)))
    chosen = {name: each for name, each in arms.items() if name == "full" or name.startswith(only)}
    console = rich.console.Console()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        prepare_once(config, common, pathlib.Path(scratch) / "prepared")
        for number, (name, overrides) in enumerate(chosen.items()):
            place = pathlib.Path(scratch) / str(number)
            flags = [f"--epochs={epochs}", f"--config={config}", f"--folder={place}"]
            flags += [f"--set={each}" for each in set_ or []]
            found[name] = measure_elsewhere([*flags, f"--arm={json.dumps(overrides)}"])
            console.print(f"{name}: perplexity {found[name]['perplexity']:.2f}")
            if out:
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"arm": name, "epochs": epochs, **found[name]}) + "\n")
    _show(console, found, epochs)


def list_arms(
    noise_words: list[str], distortions: list[str], windows: list[str]
) -> dict[str, list[str]]:
    """Overrides by the name of the arm."""
    arms: dict[str, list[str]] = {"full": []}
    for count in noise_words:
        for kind in ("sampled", "nce"):
            drawn = [f"train.loss.kind={kind}", f"train.loss.noise_words={count}"]
            for power in distortions:
                name = f"{kind} k={count} unigram^{power}"
                arms[name] = [*drawn, f"train.loss.distortion={power}"]
            arms[f"{kind} k={count} log-uniform"] = [*drawn, "train.loss.noise=log_uniform"]
    for order in windows:
        arms[f"window n={order}"] = [
            "model.language_model.architecture=window",
            f"model.language_model.window={order}",
        ]
    return arms


def prepare_once(config: pathlib.Path, overrides: list[str], folder: pathlib.Path) -> None:
    """Prepare the data that all arms train on."""
    from pipeline.experiment_file import load_experiment, workspace_of
    from pipeline.prepare.run import prepare

    experiment = load_experiment(config, [*overrides, f"workspace={folder}"])
    prepare(experiment, workspace_of(experiment), rich.console.Console(stderr=True))


def measure_elsewhere(flags: list[str]) -> dict[str, Any]:
    """An arm, measured in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *flags], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def measure(
    config: pathlib.Path, overrides: list[str], folder: pathlib.Path | None
) -> dict[str, Any]:
    """An arm, measured in this process."""
    from pipeline.experiment_file import load_experiment, workspace_of
    from pipeline.train.trainer import Trainer

    assert folder is not None
    experiment = load_experiment(config, [*overrides, f"workspace={folder}"])
    folder.mkdir()
    (folder / "data").symlink_to(folder.parent / "prepared" / "data")
    trainer = Trainer(experiment, workspace_of(experiment))
    started = time.perf_counter(), time.process_time()
    outcome = trainer.run()
    return {
        "perplexity": outcome.best,
        "best_step": outcome.best_step,
        "steps": outcome.step,
        "seconds": time.perf_counter() - started[0],
        "processor_seconds": time.process_time() - started[1],
    }


def _show(console: rich.console.Console, found: dict[str, dict[str, Any]], epochs: int) -> None:
    table = rich.table.Table(title=f"After {epochs} epochs", title_justify="left")
    for name in ("arm", "perplexity", "over full", "best at step", "s", "processor s"):
        table.add_column(name, justify="left" if name == "arm" else "right", no_wrap=True)
    full = found["full"]["perplexity"]
    for name, each in found.items():
        table.add_row(
            name,
            f"{each['perplexity']:.2f}",
            f"{each['perplexity'] / full:.3f}",
            f"{each['best_step']:,} of {each['steps']:,}",
            f"{each['seconds']:,.0f}",
            f"{each['processor_seconds']:,.0f}",
        )
    console.print(table)
    estimates = [each["perplexity"] for name, each in found.items() if name.startswith("nce")]
    if estimates:
        share = min(estimates) / full
        verdict = "within" if share <= GOAL else "beyond"
        console.print(f"Best NCE over full: {share:.3f}, {verdict} the goal of {GOAL}")


if __name__ == "__main__":
    typer.run(main)
