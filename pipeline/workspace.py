"""Where the files of a run lie, and how they come to lie there whole.

Every stage writes beside its destination and renames at the end, so that whoever looks at
the workspace sees either the old state or the new one, never half of either.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

from models.errors import UserError
from pipeline.places import Place, UrlPath, place

SPLITS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class Workspace:
    """The folder of one run.

    Attributes:
        root: The run's folder, or its URL. It need not exist yet.
        data_folder: Path or URL of `data`, if it does not lie in the run's folder.
    """

    root: Place
    data_folder: str | None = None

    @property
    def experiment(self) -> Place:
        """The resolved experiment with the versions of the libraries that ran it."""
        return self.root / "experiment.yaml"

    @property
    def data(self) -> Place:
        """Records, vocabularies and the manifest: what `prepare` publishes."""
        return self.root / "data" if self.data_folder is None else place(self.data_folder)

    @property
    def manifest(self) -> Place:
        """Counts, drops, sizes and fingerprints of the prepared data."""
        return self.data / "manifest.json"

    @property
    def train(self) -> Place:
        """Checkpoints of the training run."""
        return self.root / "train"

    @property
    def best(self) -> Place:
        """The best checkpoint by the metric the experiment names."""
        return self.train / "best"

    @property
    def logs(self) -> Place:
        """TensorBoard's event files."""
        return self.root / "logs"

    @property
    def scores(self) -> Place:
        """What `evaluate` writes."""
        return self.root / "scores"

    @property
    def export(self) -> Place:
        """Holds one folder a model name, and in it one folder a version."""
        return self.root / "export"

    @property
    def here(self) -> pathlib.Path:
        """Folder for what cannot lie at a URL: the run's own, or in `runs` one of its name."""
        root = self.root
        return root if isinstance(root, pathlib.Path) else pathlib.Path("runs", root.name)

    @contextlib.contextmanager
    def alone(self, stage: Literal["prepare", "train", "export"]) -> Iterator[None]:
        """Keep a second process from running a stage on the same workspace.

        The claim is a lock on the folder the stage works in. It leaves no file, and ends with
        the process, however that ends. Stores of objects have no locks: at a URL there is none.

        Args:
            stage: The stage.

        Raises:
            UserError: If another process is at it, or the folder cannot be written in.
        """
        folder = {"prepare": self.root, "train": self.train, "export": self.export}[stage]
        if isinstance(folder, UrlPath):
            yield
            return
        make_folder(folder)
        claim = os.open(folder, os.O_RDONLY)
        try:
            _lock(
                claim,
                f"{self.root}: another process is running `seqloom {stage}` on this workspace; "
                f"wait for its end, or take another workspace",
            )
            yield
        finally:
            os.close(claim)

    def shard(self, split: str, index: int, count: int, compression: str = "none") -> Place:
        """Path of one record file.

        Args:
            split: One of `SPLITS`.
            index: From 0.
            count: Number of shards of the split.
            compression: `none` or `gzip`.
        """
        suffix = ".gz" if compression == "gzip" else ""
        return self.data / f"{split}-{index:05d}-of-{count:05d}.tfrecord{suffix}"

    def shards(self, split: str) -> list[Place]:
        """The record files of a split, in order; empty when there are none."""
        return sorted(  # type: ignore[type-var]
            path
            for path in self.data.glob(f"{split}-*-of-*.tfrecord*")
            if path.suffix in (".tfrecord", ".gz")
        )

    def vocabulary(self, side: str) -> Place:
        """Path of the SentencePiece model of a side (`source`, `target` or `shared`)."""
        return self.data / vocabulary_file(side)

    def counts(self, side: str) -> Place:
        """Path of the unigram counts of a side: one line an id, `piece TAB count`."""
        return self.data / f"{side}.counts.tsv"


def make_folder(folder: Place) -> None:
    """Make a folder, with those above it, that files can be written in; at a URL there are none.

    Raises:
        UserError: If that cannot be, told before the work whose outcome is to lie there.
    """
    if isinstance(folder, UrlPath):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be made a folder ({error.strerror}); name another one in the key "
            f"workspace"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(
            f"{folder}: cannot be written in; change its permissions, or name another folder in "
            f"the key workspace"
        )


def _lock(descriptor: int, refusal: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(refusal) from None


def vocabulary_file(name: str) -> str:
    """File name of a vocabulary: a SentencePiece model, or a table of pieces as JSON."""
    return f"{name}.vocabulary"


def fingerprint(value: Any) -> str:
    """Stable hash of a JSON-like value, the same on every machine and run."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_fingerprint(path: str | os.PathLike | UrlPath) -> str:
    """Hash of the bytes of a file, which may lie at a URL."""
    with place(str(path)).open("rb") as file:
        return stream_fingerprint(file)


def stream_fingerprint(file: BinaryIO) -> str:
    """Hash of the bytes of an open file, from where it stands."""
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()[:16]


def write_text(path: str | os.PathLike | UrlPath, text: str) -> None:
    """Write a UTF-8 file whole; its line ends are those of the text."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike | UrlPath, content: bytes) -> None:
    """Write a file whole: beside its place first, then renamed into it."""
    if isinstance(path, UrlPath):
        path.write_bytes(content)
        return
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: str | os.PathLike | UrlPath, value: Any) -> None:
    """Write a JSON file whole, indented, with the keys in the order given."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: str | os.PathLike | UrlPath, remedy: str) -> dict[str, Any]:
    """Read a JSON object from a file that an earlier stage wrote.

    Args:
        path: The file.
        remedy: What the user should do when it is missing or torn.

    Raises:
        UserError: If the file is missing, unreadable or no JSON object.
    """
    try:
        value = json.loads(place(str(path)).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. {remedy}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}). {remedy}") from None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error}). {remedy}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds no JSON object. {remedy}")
    return value


def remove_folder(folder: Place) -> None:
    """Delete a folder with all in it; nothing if there is none."""
    if isinstance(folder, UrlPath):
        folder.remove_all()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def published_folder(destination: Place, last: str = "") -> contextlib.AbstractContextManager[Any]:
    """Give a folder to write in that becomes `destination` only if the block succeeds.

    Args:
        destination: The folder to publish, which may be at a URL.
        last: Name of the file without which the folder counts for nothing. Folders at URLs
            cannot be renamed: this file goes before all others and comes after them.

    Returns:
        A context that gives an empty folder on the same file system.
    """
    if isinstance(destination, UrlPath):
        return _published_url(destination, last)
    return _published_path(destination)


@contextlib.contextmanager
def uploaded_folder(destination: UrlPath, last: str) -> Iterator[pathlib.Path]:
    """Give a folder of this machine whose files go to a URL if the block succeeds.

    Args:
        destination: Where they go.
        last: Name of the file directly in it without which the others count for nothing.

    Returns:
        A context that gives an empty folder.
    """
    with tempfile.TemporaryDirectory(prefix="seqloom-upload-") as name:
        folder = pathlib.Path(name)
        yield folder
        files = (path for path in folder.rglob("*") if path.is_file())
        for path in sorted(files, key=lambda path: (path == folder / last, path)):
            place(f"{destination}/{path.relative_to(folder)}").write_bytes(path.read_bytes())


@contextlib.contextmanager
def folder_here(folder: Place) -> Iterator[pathlib.Path]:
    """A folder, or while the block runs a copy here, under the same name, of one at a URL."""
    if isinstance(folder, pathlib.Path):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="seqloom-download-") as name:
        copy = pathlib.Path(name, folder.name)
        for path in folder.rglob("*"):
            file = copy / str(path).removeprefix(f"{folder}/")
            file.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as remote, file.open("wb") as here:
                shutil.copyfileobj(remote, here, 1 << 20)
        yield copy


@contextlib.contextmanager
def _published_url(destination: UrlPath, last: str) -> Iterator[UrlPath]:
    beside = destination.with_name(f".{destination.name}.partial")
    beside.remove_all()
    try:
        yield beside
        names = sorted((path.name for path in beside.iterdir()), key=lambda name: name == last)
        (destination / last).unlink(missing_ok=True)
        destination.remove_all()
        for name in names:
            (beside / name).replace(destination / name)
    finally:
        beside.remove_all()


@contextlib.contextmanager
def _published_path(destination: pathlib.Path) -> Iterator[pathlib.Path]:
    """As `published_folder`, by renaming.

    The block writes in a hidden folder beside `destination`. If it ends normally that
    folder takes the place of `destination`, whatever stood there; if it raises, or the
    process is killed, `destination` is untouched and a later call clears what was left.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    beside = destination.parent / f".{destination.name}.partial"
    retired = destination.parent / f".{destination.name}.retired"
    if retired.exists() and not destination.exists():
        # Killed between the two renames of an earlier publication: the old state is whole.
        os.replace(retired, destination)
    for leftover in (beside, retired):
        shutil.rmtree(leftover, ignore_errors=True)
    beside.mkdir()
    try:
        yield beside
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    if destination.exists():
        os.replace(destination, retired)
    os.replace(beside, destination)
    shutil.rmtree(retired, ignore_errors=True)
