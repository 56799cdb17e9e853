"""Pictures of records on their way into batches."""

import pathlib

import numpy as np
import tensorflow as tf

from models.errors import UserError
from pipeline.prepare.picture_files import Kind, StoredPicture, open_rows


class PictureRows:
    """The pictures of the records of a data folder, read where a batch asks for them.

    Args:
        folder: Of the shards.
        kind: Which of their files.

    Raises:
        UserError: If there is no such file.
    """

    def __init__(self, folder: pathlib.Path, kind: Kind):
        self._folder = folder
        self._kind: Kind = kind
        found = sorted(folder.glob(f"*.{kind}.npy"))
        if not found:
            raise UserError(f"{folder}: holds no {kind} of pictures; run `seqloom prepare` again")
        first = open_rows(found[0])
        self._dtype = first.dtype
        self._shape = first.shape[1:]

    def gather(self, shards: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Pictures of a batch.

        Args:
            shards: String [B], as of `StoredPicture`.
            rows: Int64 [B], likewise.

        Returns:
            Float32 [B, R, C, F] of features, or uint8 [B, S, S, 3] of pixels.
        """
        found = tf.numpy_function(self._read, [shards, rows], self._dtype, stateful=False)
        return tf.ensure_shape(found, [None, *self._shape])

    def _read(self, shards: np.ndarray, rows: np.ndarray) -> np.ndarray:
        pictures = np.empty([len(rows), *self._shape], self._dtype)
        for place, (shard, row) in enumerate(zip(shards, rows, strict=True)):
            stored = StoredPicture(self._folder, shard.decode(), int(row))
            pictures[place] = stored.read(self._kind)
        return pictures
