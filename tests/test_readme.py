"""What the README shows must be so."""

import pathlib
import re

import yaml
from command import ROOT, seqloom

from models.attention.kinds import ATTENTIONS
from models.attention.scores import SCORES
from models.bridges import BRIDGES
from models.decoders import DECODERS
from models.recurrent import CELLS
from pipeline.experiment import Experiment
from serving.signatures import TRANSLATION_SIGNATURES

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_experiment_it_shows_is_valid():
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    experiment = Experiment.model_validate(yaml.safe_load(block))
    assert [corpus.format for corpus in experiment.data.train] == ["parallel", "tsv", "jsonl"]


def test_the_verbs_it_names_exist():
    known = seqloom("--help").stdout.decode()
    verbs = set(re.findall(r"seqloom ([a-z]+) ", README))
    assert verbs >= {"run", "serve", "translate", "monitor", "prepare"}
    for verb in verbs:
        assert f" {verb} " in known


def test_the_files_it_names_exist():
    for name in re.findall(r"\]\(([^)]+)\)|python ((?:benchmarks|data)/\w+\.py)", README):
        assert (ROOT / (name[0] or name[1])).exists()
    for target in re.findall(r"make (\w+)", README):
        if target != "are":
            assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_the_signatures_are_those_of_an_export():
    for signature in TRANSLATION_SIGNATURES:
        (row,) = [line for line in README.split("\n") if line.startswith(f"| `{signature.name}` |")]
        for name in (*signature.input_names, *signature.output_names):
            assert f"`{name}`" in row


def test_the_choices_are_those_there_are():
    for choices in (CELLS, DECODERS, SCORES, ATTENTIONS, BRIDGES):
        for name in choices:
            assert f"`{name}`" in README


def test_every_benchmark_stands_in_it():
    for path in pathlib.Path(ROOT / "benchmarks").glob("*.py"):
        assert f"benchmarks/{path.name}" in README
