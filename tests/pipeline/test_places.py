"""Places at URLs, and a run whose corpora and data lie at them, in the memory of this process."""

import gzip
import io

import pytest
import rich.console
import tensorflow as tf

from models.errors import UserError
from pipeline.batches import read_pairs
from pipeline.experiment import Experiment
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.places import UrlPath, is_url, place
from pipeline.prepare.engine import BeamIOError, FileSystems
from pipeline.prepare.manifest import load_manifest
from pipeline.prepare.run import prepare
from pipeline.record_files import record_files
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
        # As a store of objects does: whatever begins so, at any depth. TensorFlow's own listing
        # knows folders only that were made.
        for path in sorted(WRITTEN):
            if path.startswith(dir_or_prefix):
                yield self.metadata(path)

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
        return path in WRITTEN

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
            WRITTEN.remove(path)
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
    with pytest.raises(UserError, match="TensorFlow reads no records at s3://"):
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
