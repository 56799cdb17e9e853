"""What the README shows must be so."""

import pathlib
import re

import yaml
from command import ROOT, seqloom

from models.attention.kinds import ATTENTIONS
from models.attention.scores import SCORES
from models.bridges import BRIDGES
from models.decoders.kinds import DECODERS
from models.recurrent import CELLS
from pipeline.experiment import METRICS, Experiment
from serving import signatures

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


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


def test_the_files_that_the_documents_name_exist():
    for name, text in DOCS.items():
        for link in re.findall(r"\]\(([^):#]+)\)", text):
            assert (ROOT / "docs" / link).exists(), (name, link)
        for path in re.findall(r"(?:python |`)((?:benchmarks|configs|data)/[\w.-]+)", text):
            assert (ROOT / path).exists(), (name, path)
        for config in re.findall(r"`([\w-]+\.yaml)`", text):
            assert (ROOT / "configs" / config).exists(), (name, config)


def test_every_document_is_named_in_the_readme():
    assert not [name for name in DOCS if f"docs/{name}" not in README]


def test_every_task_is_told_with_its_signatures():
    of_tasks = {
        "translation": signatures.TRANSLATION_SIGNATURES,
        "language_model": signatures.LANGUAGE_MODEL_SIGNATURES,
        "classification": signatures.CLASSIFICATION_SIGNATURES,
        "tagging": signatures.TAGGING_SIGNATURES,
        "answering": signatures.ANSWERING_SIGNATURES,
        "captioning": signatures.CAPTIONING_SIGNATURES,
        "visual_answering": (signatures.ASK_PICTURE,),
        "lip_reading": signatures.LIP_READING_SIGNATURES,
        "frame_tagging": signatures.FRAME_TAGGING_SIGNATURES,
    }
    assert set(of_tasks) == set(METRICS)
    lines = DOCS["tasks.md"].split("\n")
    for task, several in of_tasks.items():
        assert f"| `{task}` |" in README
        for signature in several:
            start = f"| {task} | `{signature.name}` |"
            (row,) = [line for line in lines if line.startswith(start)]
            for name in (*signature.input_names, *signature.output_names):
                assert f"`{name}`" in row


def test_what_each_form_of_an_answer_explains_is_told():
    forms = {"classifier": signatures.LOOK_AT_PICTURE, "generator": signatures.ALIGN_ANSWER}
    for form, signature in forms.items():
        start = f"| visual_answering, {form} | `{signature.name}` |"
        (row,) = [line for line in DOCS["tasks.md"].split("\n") if line.startswith(start)]
        for name in (*signature.input_names, *signature.output_names):
            assert f"`{name}`" in row


def test_the_signatures_are_those_of_an_export():
    for signature in signatures.TRANSLATION_SIGNATURES:
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
