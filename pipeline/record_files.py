"""Record files as TensorFlow reads them."""

from collections.abc import Sequence

import tensorflow as tf

from models.errors import UserError
from pipeline.places import Place, UrlPath


def record_files(shards: Sequence[Place]) -> list[str]:
    """Paths and URLs of record files, for TensorFlow.

    Raises:
        UserError: If it has no file system for a URL of theirs.
    """
    for path in shards:
        known = tf.io.gfile.get_registered_schemes()
        if isinstance(path, UrlPath) and path.scheme not in known:
            raise UserError(
                f"{path}: TensorFlow reads no records at {path.scheme}://, to which `prepare` can "
                f"write them; copy the folder to where this machine sees it, and name that in "
                f"data.folder"
            )
    return [str(path) for path in shards]
