"""Files and folders by path or by URL: what of `pathlib` the stages use, for both.

URLs are read and written by Beam's file systems, which know `gs://` and `s3://` if the extra of
that name is installed. TensorFlow reads records by file systems of its own.
"""

import contextlib
import errno
import fnmatch
import glob
import os
import pathlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from models.errors import UserError

_SEPARATOR = "://"
_EXTRAS = {"gs": "gcs", "s3": "s3"}


class UrlStat(NamedTuple):
    """What is known of a file."""

    st_size: int
    st_mtime_ns: int

    @property
    def st_ctime_ns(self) -> int:
        """The same: a store sets the time itself."""
        return self.st_mtime_ns


class UrlPath:
    """A file or folder at a URL. Folders are nothing of their own: they begin names.

    A file that is written appears when it is whole, as stores of objects have it.

    Args:
        url: With a scheme, such as `gs://bucket/folder`.
    """

    def __init__(self, url: str):
        self._url = url.rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"UrlPath({self._url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlPath) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __lt__(self, other: "UrlPath") -> bool:
        return self._url < other._url

    def __truediv__(self, name: str) -> "UrlPath":
        return UrlPath(f"{self._url}/{name}")

    @property
    def scheme(self) -> str:
        """What stands before `://`."""
        return self._url.partition(_SEPARATOR)[0]

    @property
    def name(self) -> str:
        """Behind the last slash."""
        return self._url.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last part."""
        return pathlib.PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """The name's last part from a dot on."""
        return pathlib.PurePosixPath(self.name).suffix

    @property
    def parent(self) -> "UrlPath":
        """The folder that it lies in."""
        return UrlPath(self._url.rpartition("/")[0])

    def with_name(self, name: str) -> "UrlPath":
        """Another name in the same folder."""
        return self.parent / name

    def absolute(self) -> "UrlPath":
        """Itself."""
        return self

    def resolve(self) -> "UrlPath":
        """Itself."""
        return self

    def exists(self) -> bool:
        """Whether it is a file, or begins the name of one."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether it is a file."""
        with self._told():
            return self._files().exists(self._url) and not self.is_dir()

    def is_dir(self) -> bool:
        """Whether files lie in it."""
        return next(self._under(), None) is not None

    def stat(self) -> UrlStat:
        """Size and time.

        Raises:
            FileNotFoundError: If it is not there.
        """
        found = [each for each in self._match(_escaped(self._url)) if each.path == self._url]
        if not found:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._url)
        return _stat_of(found[0])

    def stats(self) -> dict["UrlPath", UrlStat]:
        """Size and time of each file in it, at any depth, asked for together."""
        return {UrlPath(each.path): _stat_of(each) for each in self._match(self._inside())}

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the file for reading bytes, at any place, or for writing them, `wb`.

        Raises:
            FileNotFoundError: If it is to be read and not there.
        """
        # As it is: Beam would otherwise unpack by the name's ending.
        how = {"mime_type": "application/octet-stream", "compression_type": "uncompressed"}
        with self._told():
            if mode == "wb":
                return self._files().create(self._url, **how)
            self.stat()
            return self._files().open(self._url, **how)

    def read_bytes(self) -> bytes:
        """The whole file."""
        with self.open() as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole file as text."""
        return self.read_bytes().decode(encoding, errors)

    def write_bytes(self, content: bytes) -> None:
        """Write the whole file."""
        with self.open("wb") as file:
            file.write(content)

    def touch(self) -> None:
        """Write a file that says nothing; stores that are sent files in parts refuse empty ones."""
        self.write_bytes(b"\n")

    def replace(self, target: "UrlPath") -> None:
        """Move the file, in place of another if there is one."""
        target.unlink(missing_ok=True)
        with self._told():
            self._files().rename([self._url], [target._url])

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the file."""
        if missing_ok and not self.is_file():
            return
        with self._told():
            self._files().delete([self._url])

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: a folder is there once a file is in it."""

    def glob(self, pattern: str) -> Iterator["UrlPath"]:
        """The files directly in it whose names match."""
        for path in self._under():
            if path.parent == self and fnmatch.fnmatchcase(path.name, pattern):
                yield path

    def rglob(self, pattern: str) -> Iterator["UrlPath"]:
        """The files in it, at any depth, whose names match."""
        return (path for path in self._under() if fnmatch.fnmatchcase(path.name, pattern))

    def folders(self) -> set[str]:
        """Names of the folders directly in it."""
        below = (str(path).removeprefix(f"{self._url}/").split("/") for path in self._under())
        return {first for first, *others in below if others}

    def iterdir(self) -> Iterator["UrlPath"]:
        """The files directly in it."""
        return self.glob("*")

    def remove_all(self) -> None:
        """Delete all files in it, at any depth."""
        paths = [str(path) for path in self._under()]
        with self._told():
            if paths:
                self._files().delete(paths)

    def _under(self) -> Iterator["UrlPath"]:
        for found in self._match(self._inside()):
            yield UrlPath(found.path)

    def _inside(self) -> str:
        return f"{_escaped(self._url)}/**"

    def _match(self, pattern: str) -> list[Any]:
        """What Beam knows of the files that a pattern matches."""
        with self._told():
            (result,) = self._files().match([pattern])
        return result.metadata_list

    @staticmethod
    def _files():
        from pipeline.prepare.engine import FileSystems, PipelineOptions

        # Beam sets them when it makes a pipeline, and some file systems cannot do without.
        if FileSystems._pipeline_options is None:
            FileSystems.set_options(PipelineOptions([]))
        return FileSystems

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tell what Beam cannot do in the words of this project."""
        from pipeline.prepare.engine import BeamIOError

        try:
            yield
        except ValueError as error:
            if "Unable to get filesystem" not in str(error):
                raise
            remedy = (
                f"pip install 'seqloom[{_EXTRAS[self.scheme]}]'"
                if self.scheme in _EXTRAS
                else "expected gs:// or s3://"
            )
            raise UserError(f"{self._url}: no file system for {self.scheme}://; {remedy}") from None
        except BeamIOError as error:
            raise OSError(None, f"{error}", self._url) from None


def _escaped(url: str) -> str:
    """A URL as a pattern that matches it alone."""
    scheme, separator, rest = url.partition(_SEPARATOR)
    return f"{scheme}{separator}{glob.escape(rest)}"


def _stat_of(metadata: Any) -> UrlStat:
    seconds = metadata.last_updated_in_seconds or 0.0
    return UrlStat(metadata.size_in_bytes, int(seconds * 1_000_000_000))


Place = pathlib.Path | UrlPath


def is_url(text: str) -> bool:
    """Whether a text is a URL and no path."""
    return _SEPARATOR in text


def no_url(folder: Place, what: str, key: str) -> pathlib.Path:
    """A folder that has to be one that this machine sees.

    Args:
        folder: The folder.
        what: Is not possible at a URL, as a sentence without its end.
        key: What names the folder: a key of the experiment, or an option.

    Raises:
        UserError: If it is at a URL.
    """
    if isinstance(folder, UrlPath):
        raise UserError(f"{key}: {folder} is a URL, at which {what}; name a folder")
    return folder


def place(text: str) -> Place:
    """The file or folder of a path or URL."""
    return UrlPath(text) if is_url(text) else pathlib.Path(text)
