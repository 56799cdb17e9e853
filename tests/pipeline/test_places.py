"""Places at URLs, and a run whose corpora and data lie at them, in the memory of this process."""

import contextlib
import gzip
import io
import json
import tempfile

import pytest
import rich.console
import tensorflow as tf

from models.errors import UserError
from pipeline.batches import read_pairs
from pipeline.cli import main
from pipeline.experiment import Experiment
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export, is_exported, versions
from pipeline.places import UrlPath, is_url, place
from pipeline.prepare import job
from pipeline.prepare.engine import FileSystems
from pipeline.prepare.manifest import load_manifest
from pipeline.prepare.run import prepare
from pipeline.stages import run_stages
from pipeline.tensorflow_files import record_files
from pipeline.train.checkpoints import latest_best
from pipeline.train.trainer import Trainer
from pipeline.vocabularies import load_vocabularies


def test_what_is_a_url():
    assert is_url("gs://bucket/a") and not is_url("/a/b") and not is_url("a:b")
    assert place("gs://bucket/a") == UrlPath("gs://bucket/a/")
    assert place("a/b").name == "b"
    path = UrlPath("gs://bucket/a/b.tar.gz")
    assert (path.name, path.suffix, path.scheme) == ("b.tar.gz", ".gz", "gs")
    assert path.with_name("c") == UrlPath("gs://bucket/a") / "c" == path.parent / "c"


def test_files_at_a_url(store):
    folder = place(store)
    assert not folder.exists() and list(folder.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        (folder / "a").read_bytes()
    (folder / "a").write_bytes(b"one")
    (folder / "deep" / "b").write_bytes(b"two")
    (folder / "a.txt").write_bytes(b"three")
    assert folder.is_dir() and not folder.is_file() and (folder / "a").is_file()
    assert (folder / "a").stat().st_size == 3
    assert sorted(folder.iterdir()) == [folder / "a", folder / "a.txt"]
    assert list(folder.glob("*.txt")) == [folder / "a.txt"]
    (folder / "a").replace(folder / "a.txt")
    assert (folder / "a.txt").read_text() == "one" and not (folder / "a").exists()
    folder.remove_all()
    assert not folder.exists()


def test_names_may_hold_what_patterns_are_made_of(store):
    folder = place(store)
    for name in ("a[1].txt", "a1.txt", "a*.txt", "b?[/c.txt"):
        (folder / name).write_bytes(name.encode())
    for name in ("a[1].txt", "a*.txt", "b?[/c.txt"):
        assert (folder / name).read_text() == name and (folder / name).stat().st_size == len(name)
    assert [path.name for path in (folder / "b?[").iterdir()] == ["c.txt"]
    with pytest.raises(FileNotFoundError):
        (folder / "a[2].txt").stat()
    found = folder.stats()
    assert {path: each.st_size for path, each in found.items()} == {
        folder / name: len(name) for name in ("a[1].txt", "a1.txt", "a*.txt", "b?[/c.txt")
    }


def test_a_scheme_without_a_file_system_is_told():
    assert FileSystems.get_scheme("s3://bucket") == "s3"
    for url, remedy in (("s3://bucket/x", r"pip install 'seqloom\[s3\]'"), ("ftp://h/x", "gs://")):
        try:
            FileSystems.get_filesystem(url)
        except ValueError:
            with pytest.raises(UserError, match=f"no file system for .*{remedy}"):
                place(url).read_bytes()


def test_records_that_tensorflow_cannot_read_are_told():
    with pytest.raises(UserError, match="TensorFlow has no file system for s3://"):
        record_files([place("s3://bucket/train-00000-of-00001.tfrecord")])


def test_a_run_by_urls_is_that_of_paths(store, prepared_folder, tmp_path, console):
    """Corpora, plain and packed, and data; training reads the records and vocabularies there."""
    here = load_experiment(prepared_folder / "tiny.yaml")
    folder = place(store)
    for name in ("train", "valid", "test"):
        text = (prepared_folder / f"{name}.tsv").read_bytes()
        packed = name == "train"
        path = folder / (f"{name}.tsv.gz" if packed else f"{name}.tsv")
        path.write_bytes(gzip.compress(text) if packed else text)
    values = here.model_dump()
    values["workspace"] = str(tmp_path / "run")
    values["data"]["folder"] = f"{store}/data"
    values["train"]["max_steps"] = 2
    for name, ending in (("train", ".tsv.gz"), ("valid", ".tsv"), ("test", ".tsv")):
        values["data"][name][0]["path"] = f"{store}/{name}{ending}"
    experiment = Experiment.model_validate(values)
    workspace = workspace_of(experiment)
    for _ in range(2):  # The second takes the place of the first.
        prepare(experiment, workspace, console)

    there = {path.name: path.read_bytes() for path in workspace.data.iterdir()}
    expected = {path.name: path.read_bytes() for path in (prepared_folder / "run/data").iterdir()}
    assert there.keys() == expected.keys()
    for name in there.keys() - {"manifest.json"}:
        assert there[name] == expected[name]
    assert not list(place(f"{store}/.data.partial")._under())
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["experiment.yaml"]

    load_manifest(workspace, experiment)
    assert load_vocabularies(experiment, workspace).target
    assert len(read_pairs(workspace.shards("train")).targets) == 400
    assert Trainer(experiment, workspace).run().step == 2


def test_a_missing_corpus_at_a_url_is_told(store, tmp_path, prepared_folder):
    experiment = load_experiment(
        prepared_folder / "tiny.yaml",
        [f"data.train.0.path={store}/no.tsv", f"workspace={tmp_path / 'run'}"],
    )
    with pytest.raises(UserError, match=f"{store}/no.tsv: no such file; name"):
        prepare(experiment, workspace_of(experiment), rich.console.Console(file=io.StringIO()))


def test_an_experiment_at_a_url_is_that_of_a_file(store, prepared_folder, capsys, monkeypatch):
    text = (prepared_folder / "tiny.yaml").read_bytes()
    (place(store) / "tiny.yaml").write_bytes(text)
    url = f"{store}/tiny.yaml"
    assert load_experiment(url) == load_experiment(prepared_folder / "tiny.yaml")
    monkeypatch.setattr("sys.argv", ["seqloom", "show", url, "--set", "seed=6"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert shown.startswith("name: tiny\n") and "\nseed: 6\n" in shown
    (place(store) / "wrong.yaml").write_bytes(text.replace(b"seed:", b"sead:"))
    with pytest.raises(UserError, match=f"^{store}/wrong.yaml, line 3: unknown key 'sead'"):
        load_experiment(f"{store}/wrong.yaml")
    with pytest.raises(UserError, match=f"^{store}/no.yaml: no such experiment file"):
        load_experiment(f"{store}/no.yaml")


def test_prepare_leaves_nothing_here_of_a_workspace_at_a_url(
    store, prepared_folder, tmp_path, monkeypatch, console
):
    """Neither when it ends well, nor when it fails early, late or before it has begun."""
    temporary, empty, made = tmp_path / "temporary", tmp_path / "empty.tsv", []
    temporary.mkdir()
    empty.write_text("\t\n")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(job, "tempfile", Watched(made))
    path = prepared_folder / "tiny.yaml"
    wrong = [[], [f"data.train.0.path={store}/no.tsv"], [f"data.train.0.path={empty}"]]
    wrong += [["cluster={runner: flink}"], ["cluster={runner: slurm}"]]
    for settings in wrong:
        experiment = load_experiment(path, [f"workspace={store}/run", *settings])
        with pytest.raises(UserError) if settings else contextlib.nullcontext():
            prepare(experiment, workspace_of(experiment), console)
    assert len(made) == len(wrong) and not list(temporary.iterdir())


class Watched:
    """The module tempfile, whose folders are counted."""

    def __init__(self, made):
        self._made = made

    def mkdtemp(self, **how):
        self._made.append(tempfile.mkdtemp(**how))
        return self._made[-1]


def test_a_workspace_at_a_url_holds_the_whole_run(store, prepared_folder, console):
    """Data, checkpoints, logs, scores and exports; the second run finds all up to date."""
    settings = [f"workspace={store}/run", "train.max_steps=2", "export.warmup_requests=1"]
    experiment = load_experiment(prepared_folder / "tiny.yaml", settings)
    workspace = workspace_of(experiment)
    run_stages(experiment, workspace, console)
    assert load_experiment(workspace.experiment) == experiment
    assert Trainer(experiment, workspace).step == 2
    assert list(workspace.logs.rglob("events*"))
    assert json.loads((workspace.scores / "test.json").read_text())["checkpoint_step"] == 2
    assert versions(workspace.export / "translation") == [1]

    told = io.StringIO()
    run_stages(experiment, workspace, rich.console.Console(file=told, width=200))
    assert told.getvalue().count("up to date") == 3 and "already ended" in told.getvalue()
    url = str(workspace.export / "translation" / "1")
    assert "serving_default" in tf.saved_model.load(url).signatures
    # An upload that was broken off counts for nothing, and is not gone on with.
    (workspace.export / "translation" / "1" / "saved_model.pb").unlink()
    assert not is_exported(experiment, workspace)
    assert export(experiment, workspace, console) == workspace.export / "translation" / "2"


def test_training_where_tensorflow_has_no_file_system_is_refused(prepared_folder):
    elsewhere = workspace_of(
        load_experiment(prepared_folder / "tiny.yaml", ["workspace=s3://b/run"])
    )
    with pytest.raises(UserError, match="s3://b/run/train/best: TensorFlow has no file system"):
        latest_best(elsewhere)
