"""How well and how fast photos are captioned: what the picture adds to a score, and the speeds.

    SEQLOOM_DATA=/data python benchmarks/captioning.py [--seed 1 --seed 2] [--set KEY=VALUE]

For each seed, which also draws the split by picture, `configs/captioning.yaml` is prepared, trained
and scored on its test split three times:

- as it is,
- without pictures: the same decoder on the same records, all features 0, which is a language model,
- without a model: of some captions of the training split, the one that scores best on the test
  split itself when it is said of every picture. No constant caption could be chosen better.

Speeds are those of the first seed: pictures through decoding and the network in `prepare`, target
tokens in training, and pictures over gRPC from an embedded server in this process, each answered by
a whole search. They are told by the clock and by processor time, which other work on the machine
disturbs less.
"""

import os
import pathlib
import shutil
import statistics
import tempfile
import time
from typing import Annotated, Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import rich.console
import rich.table
import typer

from pipeline.batches import Pairs, read_pairs
from pipeline.caption_scoring import CaptionScores, score_captions
from pipeline.captioner import pictures_of
from pipeline.consensus import cider
from pipeline.evaluate import evaluate
from pipeline.experiment import Experiment
from pipeline.experiment_file import load_experiment
from pipeline.export import export
from pipeline.prepare.features import PictureStore
from pipeline.prepare.pictures import picture_path
from pipeline.prepare.run import prepare
from pipeline.train.trainer import Trainer
from pipeline.workspace import Workspace
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions

CONFIG = pathlib.Path(__file__).parents[1] / "configs" / "captioning.yaml"
METHODS = ("captioner", "no picture", "best constant")


class Scores(NamedTuple):
    """Of a method with a seed."""

    bleu: float  # BLEU-4
    cider_d: float  # 0 to 10
    distinct: float  # captions that differ, as a share of the pictures


class Speed(NamedTuple):
    """How much was done in which time."""

    amount: float
    seconds: float
    processor_seconds: float  # of all threads

    def told(self, unit: str) -> str:
        """In words."""
        return (
            f"{self.amount / self.seconds:,.1f} {unit} a second, "
            f"{self.amount / self.processor_seconds:,.1f} a second of one processor"
        )


class Trained(NamedTuple):
    """How a training went."""

    scores: Scores
    tokens: "Speed"


def main(
    seed: Annotated[list[int] | None, typer.Option(help="Seeds; 1 and 2 if none.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting.")] = None,
    candidates: Annotated[int, typer.Option(help="Constant captions that are tried.")] = 300,
    out: Annotated[pathlib.Path | None, typer.Option(help="Keeps the workspaces.")] = None,
) -> None:
    """Measure."""
    console = rich.console.Console(soft_wrap=True)
    found: dict[str, list[Scores]] = {method: [] for method in METHODS}
    with tempfile.TemporaryDirectory() as scratch:
        for number in seed or [1, 2]:
            settings = [f"seed={number}", *(set_ or ())]
            experiment = load_experiment(CONFIG, settings)
            folder = (out or pathlib.Path(scratch)) / f"seed-{number}"
            first = not found["captioner"]
            if first:
                console.print(f"prepare: {_prepared(experiment).told('pictures')}")
            _quietly(prepare, experiment, Workspace(folder / "pictures"))
            blind = _without_pictures(folder)
            trained = _train(experiment, Workspace(folder / "pictures"))
            found["captioner"].append(trained.scores)
            if first:
                console.print(f"train: {trained.tokens.told('target tokens')}")
                _serve(experiment, Workspace(folder / "pictures"), console)
            found["no picture"].append(_train(experiment, blind).scores)
            found["best constant"].append(_constant(blind, candidates))
    console.print(_table(found))
    for other in METHODS[1:]:
        pairs = zip(found["captioner"], found[other], strict=True)
        margins = [own.cider_d - its.cider_d for own, its in pairs]
        told = ", ".join(f"{margin:+.3f}" for margin in margins)
        console.print(f"CIDEr-D over {other}, by seed: {told}")


class _Clock:
    """Both times since it was made."""

    def __init__(self) -> None:
        self._seconds, self._processor = time.perf_counter(), time.process_time()

    def speed(self, amount: float) -> Speed:
        """With what was done in them."""
        processor = time.process_time() - self._processor
        return Speed(amount, time.perf_counter() - self._seconds, processor)


def _prepared(experiment: Experiment) -> Speed:
    """Pictures that are read, decoded and computed by one worker."""
    (corpus,) = experiment.data.train
    folder = pathlib.Path(picture_path(corpus, b""))
    keys = [(0, os.fsencode(path.name)) for path in sorted(folder.iterdir())[:128]]
    with tempfile.TemporaryDirectory() as scratch:
        store = PictureStore([("train", corpus)], experiment.data.pictures, pathlib.Path(scratch))
        store.write("first", "train", keys[:32])
        clock = _Clock()
        store.write("second", "train", keys)
        return clock.speed(len(keys))


def _quietly(stage: Any, experiment: Experiment, workspace: Workspace) -> Any:
    return stage(experiment, workspace, rich.console.Console(quiet=True))


def _without_pictures(folder: pathlib.Path) -> Workspace:
    """A workspace of the same records, all features 0."""
    shutil.copytree(folder / "pictures" / "data", folder / "blind" / "data", dirs_exist_ok=True)
    for path in (folder / "blind" / "data").glob("*.features.npy"):
        features = np.load(path, mmap_mode="r+")
        features[:] = 0.0
        features.flush()
    return Workspace(folder / "blind")


class _Speeds(keras.callbacks.Callback):
    """Adds up what is logged, but for the first log, in which graphs are traced."""

    def __init__(self) -> None:
        super().__init__()
        self.total = Speed(0.0, 0.0, 0.0)
        self._clock: _Clock | None = None

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Add the steps since the last log."""
        if logs and self._clock:
            speed = self._clock.speed(0.0)
            done = speed._replace(amount=logs["target_tokens_per_second"] * speed.seconds)
            self.total = Speed(*map(sum, zip(self.total, done, strict=True)))
        if logs:
            self._clock = _Clock()

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        """A validation is no training: what it is in is left out."""
        self._clock = None


def _train(experiment: Experiment, workspace: Workspace) -> Trained:
    speeds = _Speeds()
    Trainer(experiment, workspace).run([speeds])
    _quietly(evaluate, experiment, workspace)
    lines = (workspace.scores / "test.hypothesis.txt").read_text(encoding="utf-8").splitlines()
    references = (workspace.scores / "test.reference.txt").read_text(encoding="utf-8").splitlines()
    scores = score_captions(lines, [line.split("\t") for line in references])
    return Trained(_of(scores, lines), speeds.total)


def _of(scores: CaptionScores, captions: list[str]) -> Scores:
    distinct = len(set(captions)) / len(captions)
    return Scores(scores.bleu[-1].value, scores.cider_d.value, distinct)


def _constant(workspace: Workspace, candidates: int) -> Scores:
    references = [each.references for each in pictures_of(_pairs(workspace, "test"))]
    captions = list(dict.fromkeys(_pairs(workspace, "train").targets))[:candidates]
    best = max(
        captions, key=lambda each: np.mean(cider([each] * len(references), references, True))
    )
    said = [best] * len(references)
    return _of(score_captions(said, references), said)


def _pairs(workspace: Workspace, split: str) -> Pairs:
    return read_pairs(workspace.shards(split))


def _serve(experiment: Experiment, workspace: Workspace, console: rich.console.Console) -> None:
    """Export, serve, and tell pictures a second."""
    _quietly(export, experiment, workspace)
    (corpus,) = experiment.data.train
    folder = pathlib.Path(picture_path(corpus, b""))
    files = [path.read_bytes() for path in sorted(folder.iterdir())[:64]]
    name = experiment.export.model_name
    options = ServerOptions(name, workspace.export / name, port=0, rest_api_port=0, announce=str)
    with Server(options) as server, Client(server.addresses.grpc, model_name=name) as client:
        for size, requests in ((1, 64), (32, 4)):
            batches = [files[at : at + size] for at in range(0, 64, size)] * 4
            client.predict({"image_bytes": batches[0]})
            clock = _Clock()
            for batch in batches[:requests]:
                client.predict({"image_bytes": batch})
            told = clock.speed(requests * size).told("pictures")
            console.print(f"serve, {size} a request: {told}")


def _table(found: dict[str, list[Scores]]) -> rich.table.Table:
    table = rich.table.Table(title="Test split, mean over seeds (least to greatest)")
    for heading in ("method", "BLEU-4", "CIDEr-D", "captions that differ"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for method, several in found.items():
        columns = zip(*several, strict=True)
        places = ("{:.1f}", "{:.3f}", "{:.0%}")
        cells = [_spread(values, form) for values, form in zip(columns, places, strict=True)]
        table.add_row(method, *cells)
    return table


def _spread(values: tuple[float, ...], form: str) -> str:
    mean, least, most = (form.format(each(values)) for each in (statistics.mean, min, max))
    return f"{mean} ({least} to {most})" if len(values) > 1 else mean


if __name__ == "__main__":
    typer.run(main)
