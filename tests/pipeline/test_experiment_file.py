"""Reading experiments, and what is said of wrong ones."""

import pathlib
import re

import pytest
import yaml

from models.errors import UserError
from pipeline.experiment import Experiment
from pipeline.experiment_file import beam_overrides, dump_experiment, load_experiment

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"

SMALL = """\
name: small
data:
  train:
    - {format: tsv, path: pairs.tsv}
train:
  batch_tokens: 64
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def complaint(path, *overrides):
    with pytest.raises(UserError) as caught:
        load_experiment(path, overrides)
    return str(caught.value)


def test_reads_values_and_defaults(small):
    experiment = load_experiment(small)
    assert experiment.train.batch_tokens == 64
    assert experiment.train.learning_rate == 1e-3
    assert experiment.data.train[0].source_column == 1


def test_set_overrides_values_sections_and_entries(small):
    experiment = load_experiment(
        small,
        [
            "train.batch_tokens=2000",
            "train.learning_rate=5e-4",
            "model.encoder.layers=2",
            "data.train.0.path=other.tsv",
            "train.max_epochs=null",
        ],
    )
    assert experiment.train.batch_tokens == 2000
    assert experiment.train.learning_rate == 5e-4
    assert experiment.model.encoder.layers == 2
    assert experiment.data.train[0].path == "other.tsv"


def test_flags_of_beam_are_settings(small):
    flags = [
        "--runner=DirectRunner",
        "--direct_num_workers=3",
        "--direct_running_mode=multi_threading",
        "--flink_master=a:1",
        "--streaming",
    ]
    cluster = load_experiment(small, beam_overrides(flags)).cluster
    assert (cluster.runner, cluster.workers, cluster.running_mode) == (
        "local",
        3,
        "multi_threading",
    )
    assert cluster.beam_options == ["--flink_master=a:1", "--streaming"]
    assert beam_overrides([]) == []
    with pytest.raises(UserError, match="expected a flag of Beam"):
        beam_overrides(["FlinkRunner"])


def test_dump_is_read_back_equal(small, tmp_path):
    experiment = load_experiment(small, ["model.cell=gru"])
    again = tmp_path / "again.yaml"
    again.write_text(dump_experiment(experiment))
    assert load_experiment(again) == experiment


def test_unknown_key_names_place_line_and_nearest(small):
    small.write_text(SMALL + "  learning_rat: 0.1\n")
    message = complaint(small)
    assert message == f"{small}, line 7: unknown key 'train.learning_rat'; did you mean " + (
        "'learning_rate'?"
    )


def test_unknown_key_without_a_near_one_lists_the_known(small):
    message = complaint(small, "search.qqq=1")
    assert "--set search.qqq=1: unknown key 'search.qqq'" in message
    assert "beam_size" in message


def test_every_mistake_is_told_at_once(small):
    message = complaint(small, "train.batch_tokens=many", "model.cell=rnn")
    assert "'train.batch_tokens' is 'many'" in message
    assert "'model.cell' is 'rnn'" in message
    assert "'simple_rnn', 'lstm', 'gru'" in message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("train.batch_tokens", "expected section.key=value"),
        ("=3", "expected section.key=value"),
        ("data.train.7.path=x", "'7' must be the number of one of 1 entries"),
        ("name.x=3", "'name' is a value, not a section"),
        ("train.batch_tokens=[", "not valid YAML"),
        ("data.train.\u00b2.path=x", "'\u00b2' must be the number of one of 1 entries"),
        ("train.max_steps=yes", "'train.max_steps': true is not expected here"),
        ("cluster.workers=off", "'cluster.workers': false is not expected here"),
        ("seed=99999999999", "less than or equal to 2147483647"),
        ("search.length_penalty=.inf", "should be a finite number"),
        ("vocabulary.source_size=4", "greater than or equal to 5"),
        ("vocabulary.character_coverage=0.5", "greater than or equal to 0.98"),
        ("data.cleaning.max_length_ratio=0.5", "greater than or equal to 1"),
        ("data.shards=100000", "less than or equal to 99999"),
        ("name=..", "'name' is '..'; expected a letter or digit"),
        ("export.model_name=.hidden", "expected a letter or digit"),
        ("train=null", "'train' is None; expected a section of keys"),
        ('workspace="a\\0b"', "a character that neither a text nor a path can hold"),
        ('workspace="a\\ud800"', "a character that neither a text nor a path can hold"),
        ("train.max_steps=&a [*a]", "nested too deeply"),
        (f"train.max_steps={'[' * 3000}", "nested too deeply"),
    ],
)
def test_wrong_overrides(small, override, expected):
    assert expected in complaint(small, override)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected keys such as 'name' and 'data' at the top, found nothing"),
        ("- a\n", "found list"),
        ("name: [\n", "not valid YAML"),
        (SMALL + "name: again\n", "line 7: the key 'name' stands twice, first in line 1"),
        ("name: x\n", "the key 'data' is missing"),
        ("name: x\ndata: &data\n  train: *data\n", "nested too deeply"),
        (SMALL.replace("small", "a/b"), "'name' is 'a/b'"),
    ],
)
def test_wrong_files(small, text, expected):
    small.write_text(text)
    assert expected in complaint(small)


def test_file_that_cannot_be_read(tmp_path):
    assert "no such experiment file" in complaint(tmp_path / "missing.yaml")
    assert "cannot be read" in complaint(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    assert "not UTF-8 at byte 9" in complaint(tmp_path / "latin.yaml")


def test_byte_order_mark_and_crlf(small):
    small.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert load_experiment(small).name == "small"


def test_corpus_needs_the_paths_of_its_format(small):
    assert "needs the key 'source'" in complaint(small, "data.train.0={format: parallel}")
    message = complaint(small, "data.train.0={format: jsonl, path: a, question_key: q}")
    assert "format 'jsonl' does not take the key 'question_key', which is of documents" in message
    message = complaint(small, "data.train.0={format: documents, path: a}", "model.task=answering")
    assert "set question_key" in message
    message = complaint(small, "data.train.0={format: tsv, path: a, source: b}")
    assert "does not take the key 'source'" in message


def test_hold_out_excludes_named_inputs(small):
    message = complaint(small, "data.test=[{format: tsv, path: t.tsv}]", "data.hold_out.test=0.1")
    assert "test has inputs and a hold_out share" in message
    assert "leaves nothing" in complaint(small, "data.hold_out.test=0.5", "data.hold_out.valid=0.5")


def test_environment_variables(small, monkeypatch):
    monkeypatch.setenv("CORPUS", "/somewhere")
    experiment = load_experiment(small, ["data.train.0.path=${CORPUS}/x.tsv"])
    assert experiment.data.train[0].path == "/somewhere/x.tsv"
    monkeypatch.delenv("CORPUS")
    assert "CORPUS, which is not set" in complaint(small, "data.train.0.path=${CORPUS}/x.tsv")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_experiments_are_valid(path, monkeypatch):
    for name in re.findall(r"\$\{(\w+)\}", path.read_text()):
        monkeypatch.setenv(name, "given")
    load_experiment(path)


def test_reference_names_every_key_with_its_default():
    reference = yaml.safe_load((CONFIGS / "reference.yaml").read_text())
    inputs = reference["data"]["train"]
    minimal = {"name": "reference", "data": {"train": inputs}}
    complete = Experiment.model_validate(minimal).model_dump()
    complete["data"]["train"] = inputs
    assert reference == complete
    assert {each["format"] for each in inputs} >= {"parallel", "tsv", "jsonl", "conllu"}


def test_reference_comments_every_section():
    lines = (CONFIGS / "reference.yaml").read_text().splitlines()
    assert sum(line.lstrip().startswith("#") for line in lines) > 60
