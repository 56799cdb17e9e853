"""Places at URLs, and a run whose corpora and data lie at them, in the memory of this process."""

import gzip
import io
import json

import pytest
import rich.console
import tensorflow as tf

from models.errors import UserError
from pipeline.batches import read_pairs
from pipeline.deploy import deploy
from pipeline.experiment import Experiment
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export, is_exported, versions
from pipeline.places import UrlPath, is_url, place
from pipeline.prepare.engine import BeamIOError, FileSystems
from pipeline.prepare.manifest import load_manifest
from pipeline.prepare.run import prepare
from pipeline.serve import serve_stage
from pipeline.stages import run_stages
from pipeline.submit.jobs import list_jobs, make_job
from pipeline.tensorflow_files import record_files
from pipeline.train.checkpoints import latest_best
from pipeline.train.trainer import Trainer
from pipeline.vocabularies import load_vocabularies

from apache_beam.io.filesystem import FileMetadata, FileSystem  # isort: skip


WRITTEN: set[str] = set()


class MemoryFileSystem(FileSystem):
    """TensorFlow's file system in memory, for Beam: what one writes the other reads."""

    @classmethod
    def scheme(cls):
        return "ram"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        return tuple(path.rpartition("/")[::2])

    def mkdirs(self, path):
        raise BeamIOError("folders of a store of objects are not made")

    def has_dirs(self):
        return False

    def _list(self, dir_or_prefix):
        # As a store of objects does: whatever begins so, at any depth.
        for path in sorted(self._all()):
            if path.startswith(dir_or_prefix):
                yield self.metadata(path)

    def _all(self):
        """What was written here, and what TensorFlow has in the folders that it made."""
        of_tensorflow = (
            f"{folder}/{name}" for folder, _, names in tf.io.gfile.walk("ram://") for name in names
        )
        return WRITTEN.union(of_tensorflow)

    def create(self, path, mime_type="", compression_type=""):
        assert compression_type in ("", "uncompressed")
        return WholeFile(path)

    def open(self, path, mime_type="", compression_type=""):
        assert compression_type in ("", "uncompressed")
        with tf.io.gfile.GFile(path, "rb") as file:
            return io.BytesIO(file.read())

    def copy(self, sources, destinations):
        for source, destination in zip(sources, destinations, strict=True):
            with self.open(source) as read, self.create(destination) as written:
                written.write(read.read())

    def rename(self, sources, destinations):
        self.copy(sources, destinations)
        self.delete(sources)

    def exists(self, path):
        return path in self._all()

    def size(self, path):
        return self.metadata(path).size_in_bytes

    def last_updated(self, path):
        return self.metadata(path).last_updated_in_seconds

    def checksum(self, path):
        return str(self.size(path))

    def metadata(self, path):
        facts = tf.io.gfile.stat(path)
        return FileMetadata(path, facts.length, facts.mtime_nsec / 1e9)

    def delete(self, paths):
        for path in paths:
            WRITTEN.discard(path)
            tf.io.gfile.remove(path)


class WholeFile(io.BytesIO):
    """A file that is there when it is closed."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def close(self):
        if not self.closed:
            if self.path in WRITTEN:
                tf.io.gfile.remove(self.path)  # It would be appended to.
            WRITTEN.add(self.path)
            with tf.io.gfile.GFile(self.path, "wb") as file:
                file.write(self.getvalue())
        super().close()


@pytest.fixture
def store(request):
    """A folder in memory, as a URL."""
    return f"ram://{request.node.name}"


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


def test_pictures_have_no_url(tmp_path, store):
    experiment = Experiment.model_validate(
        {
            "name": "pictures",
            "workspace": str(tmp_path / "run"),
            "data": {"train": [{"format": "tsv", "path": "x.tsv"}], "folder": store},
            "model": {"task": "captioning"},
        }
    )
    with pytest.raises(UserError, match="data.folder: .* is a URL, at which pictures are not"):
        prepare(experiment, workspace_of(experiment), rich.console.Console(file=io.StringIO()))


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


def test_what_needs_a_folder_says_so(store, prepared_folder, console):
    experiment = load_experiment(prepared_folder / "tiny.yaml", [f"workspace={store}/run"])
    workspace = workspace_of(experiment)
    for refused in (
        lambda: serve_stage(experiment, workspace, None, {}),
        lambda: deploy(experiment, workspace, "docker", None, console),
        lambda: make_job(experiment),
        lambda: list_jobs(workspace),
    ):
        with pytest.raises(UserError, match=f"^workspace: {store}/run.* is a URL, at which"):
            refused()
    elsewhere = workspace_of(
        load_experiment(prepared_folder / "tiny.yaml", ["workspace=s3://b/run"])
    )
    with pytest.raises(UserError, match="s3://b/run/train/best: TensorFlow has no file system"):
        latest_best(elsewhere)
