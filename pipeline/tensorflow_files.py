"""Files and folders as TensorFlow reads and writes them, by file systems of its own."""

from collections.abc import Sequence

import tensorflow as tf

from models.errors import UserError
from pipeline.places import Place, UrlPath


def for_tensorflow(path: Place, remedy: str) -> str:
    """A path or URL, for TensorFlow.

    Args:
        path: The file or folder.
        remedy: What to do where TensorFlow cannot.

    Raises:
        UserError: If it has no file system for the URL.
    """
    known = tf.io.gfile.get_registered_schemes()
    if isinstance(path, UrlPath) and path.scheme not in known:
        raise UserError(
            f"{path}: TensorFlow has no file system for {path.scheme}://, to which `prepare` can "
            f"write; {remedy}"
        )
    return str(path)


def record_files(shards: Sequence[Place]) -> list[str]:
    """Paths and URLs of record files, for TensorFlow.

    Raises:
        UserError: If it has no file system for a URL of theirs.
    """
    remedy = "copy the folder to where this machine sees it, and name that in data.folder"
    return [for_tensorflow(path, remedy) for path in shards]
