"""Pictures and clips of records on their way into batches."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from models.errors import UserError
from pipeline.places import Place
from pipeline.prepare.picture_files import Kind, StoredPicture, open_rows


class PictureRows:
    """The pictures of the records of a data folder, read where a batch asks for them.

    Args:
        folder: Of the shards.
        kind: Which of their files.

    Raises:
        UserError: If there is no such file.
    """

    def __init__(self, folder: Place, kind: Kind):
        self._folder = folder
        self._kind: Kind = kind
        found: list[Place] = sorted(folder.glob(f"*.{kind}.npy"))  # type: ignore[type-var]
        if not found:
            raise UserError(f"{folder}: holds no {kind} of pictures; run `seqloom prepare` again")
        first = open_rows(found[0])
        self._dtype = first.dtype
        self._shape = first.shape[1:]

    def gather(self, shards: tf.Tensor, rows: tf.Tensor, sources: tf.RaggedTensor) -> tf.Tensor:
        """Pictures of a batch.

        Args:
            shards: String [B], as of `StoredPicture`.
            rows: Int64 [B], likewise.
            sources: Source ids of the records, int32 [B, (S)].

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


class ClipRows(PictureRows):
    """Clips likewise, of as many frames as their records have source ids."""

    def gather(self, shards: tf.Tensor, rows: tf.Tensor, sources: tf.RaggedTensor) -> tf.Tensor:
        """Clips of a batch, uint8 [B, T, S, S, 3], padded on the right with black frames."""
        given = [shards, rows, sources.row_lengths()]
        found = tf.numpy_function(self._read_clips, given, self._dtype, stateful=False)
        return tf.ensure_shape(found, [None, None, *self._shape])

    def _read_clips(self, shards: np.ndarray, rows: np.ndarray, frames: np.ndarray) -> np.ndarray:
        stored = [
            StoredPicture(self._folder, shard.decode(), int(row))
            for shard, row in zip(shards, rows, strict=True)
        ]
        return stack_clips(
            [
                each.read_frames(self._kind, count)
                for each, count in zip(stored, frames, strict=True)
            ]
        )


def stack_clips(clips: Sequence[np.ndarray]) -> np.ndarray:
    """Clips [T, ...] of any lengths as one array [B, T, ...], padded with zeros."""
    longest = max(map(len, clips))
    stacked = np.zeros([len(clips), longest, *clips[0].shape[1:]], clips[0].dtype)
    for place, clip in enumerate(clips):
        stacked[place, : len(clip)] = clip
    return stacked
