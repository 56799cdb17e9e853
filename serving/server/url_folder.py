"""Folders of versions at URLs, which TensorFlow reads by its own file systems.

TensorFlow is imported when a folder is looked into: options and flags do without it.
"""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from models.errors import UserError

# That TensorFlow reads, and TensorFlow Serving: the latter's release 2.7 left s3:// out.
SERVED_SCHEMES = ("gs",)
# Between two looks at a folder, each of which is a request to be paid for.
URL_POLL_SECONDS = 30
# The real server sees a version as soon as its first file is there, and looks at one that it could
# not load no more: it has a minute to come whole.
URL_RETRIES, URL_RETRY_SECONDS = 6, 10
# The file of a version that is sent last: with it the version is whole.
MODEL_FILE = "saved_model.pb"
_SEPARATOR = "://"


class UrlFolder:
    """A folder at a URL: what of `pathlib` the server uses.

    Args:
        url: With a scheme, such as `gs://bucket/export/translation`.
    """

    def __init__(self, url: str):
        self._url = url.rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"UrlFolder({self._url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlFolder) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __lt__(self, other: "UrlFolder") -> bool:
        return self._url < other._url

    @property
    def name(self) -> str:
        """Behind the last slash."""
        return self._url.rpartition("/")[2]

    def absolute(self) -> "UrlFolder":
        """Itself."""
        return self

    def iterdir(self) -> Iterator["UrlFolder"]:
        """What lies directly in it.

        Raises:
            OSError: If it cannot be read.
        """
        return (UrlFolder(f"{self._url}/{name}") for name in self._ask("listdir", self._url))

    def holds_a_model(self) -> bool:
        """Whether a SavedModel is whole: whoever sends one to a store sends that file last.

        Raises:
            OSError: If it cannot be read.
        """
        return self._ask("exists", f"{self._url}/{MODEL_FILE}")

    def _ask(self, function: str, url: str) -> Any:
        import tensorflow as tf

        try:
            return getattr(tf.io.gfile, function)(url)
        except tf.errors.OpError as error:
            raise OSError(None, error.message, url) from None


Folder = pathlib.Path | UrlFolder


def folder_of(text: str) -> Folder:
    """The folder of a path or URL."""
    return UrlFolder(text) if _SEPARATOR in text else pathlib.Path(text)


def check_served(url: str, key: str) -> None:
    """Hold the URL of a model to being one that can be served from.

    Args:
        url: The URL.
        key: What names it, for the message.

    Raises:
        UserError: If it is not.
    """
    scheme = url.partition(_SEPARATOR)[0]
    if scheme not in SERVED_SCHEMES:
        known = " and ".join(f"{scheme}{_SEPARATOR}" for scheme in SERVED_SCHEMES)
        raise UserError(
            f"{key}: {url}: TensorFlow and TensorFlow Serving read {known}, and no "
            f"{scheme}{_SEPARATOR}; copy the model to a folder, and name that"
        )


@contextlib.contextmanager
def version_here(folder: Folder) -> Iterator[pathlib.Path]:
    """A version's folder, or while the block runs a copy here of one at a URL."""
    if isinstance(folder, pathlib.Path):
        yield folder
        return
    import tensorflow as tf

    with tempfile.TemporaryDirectory(prefix="seqloom-version-") as name:
        copy = pathlib.Path(name, folder.name)
        for above, _, files in tf.io.gfile.walk(str(folder)):
            inside = copy / above.rstrip("/").removeprefix(str(folder)).lstrip("/")
            inside.mkdir(parents=True, exist_ok=True)
            for file in files:
                tf.io.gfile.copy(f"{above.rstrip('/')}/{file}", str(inside / file))
        yield copy
