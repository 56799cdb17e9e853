"""The clips of a split, and what models read of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.batches import Pairs
from pipeline.picture_rows import stack_clips
from pipeline.prepare.picture_files import StoredPicture

# Frames [B, T, S, S, 3], and how many are real [B].
READ = {
    "pixels": tf.TensorSpec([None] * 5, tf.uint8),
    "frames": tf.TensorSpec([None], tf.int32),
}


class Clip(NamedTuple):
    """A clip of a split."""

    stored: StoredPicture
    frames: int


def clips_of(pairs: Pairs) -> list[Clip]:
    """The clip of each pair."""
    lengths = map(len, pairs.source_ids)
    return [Clip(*each) for each in zip(pairs.pictures, lengths, strict=True)]


def read_clips(clips: Sequence[Clip]) -> dict[str, tf.Tensor]:
    """What the model reads of clips."""
    frames = [each.frames for each in clips]
    pixels = stack_clips([each.stored.read_frames("pixels", each.frames) for each in clips])
    return {"pixels": tf.constant(pixels), "frames": tf.constant(np.array(frames, np.int32))}
