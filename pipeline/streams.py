"""Texts as streams: records in their order, cut into parallel rows and those into segments.

Line after line, each followed by the end mark, makes one stream. It is cut into B rows that are
read side by side, and these into segments of T words. A row of a segment reads on where its row
of the segment before has ended, so a model can carry its state along (truncated backpropagation
through time).

The ids of a whole split are held in memory, four bytes each.
"""

import dataclasses
import random
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from models.language_model import CONTINUES, TARGET
from models.special_ids import END_ID, PAD_ID
from pipeline.places import Place
from pipeline.prepare.records import TARGET as TARGET_IDS
from pipeline.prepare.records import feature_description
from pipeline.tensorflow_files import record_files

_PARSED_AT_ONCE = 4096
_AHEAD = 8


@dataclasses.dataclass(frozen=True)
class StreamCut:
    """How a stream is cut.

    Attributes:
        rows: Rows B read side by side.
        length: Words T of a segment.
    """

    rows: int
    length: int

    @classmethod
    def of(cls, batch_tokens: int, length: int) -> "StreamCut":
        """As many rows as a batch of `batch_tokens` words has room for; one at least."""
        return cls(max(batch_tokens // length, 1), length)

    def steps(self, words: int) -> int:
        """Words of a row."""
        return -(-words // self.rows)

    def segments(self, words: int) -> int:
        """Segments of a stream, the last of which may be shorter."""
        return -(-self.steps(words) // self.length)


def stream_batches(
    words: np.ndarray, cut: StreamCut, skip: int = 0, restarts: np.ndarray | None = None
) -> tf.data.Dataset:
    """The segments of a stream, in order.

    Args:
        words: Int32 [N], ids of the stream.
        cut: How it is cut.
        skip: Segments left out at the start.
        restarts: Bool [segments, B], true where a row starts anew all the same; None for nowhere.

    Returns:
        A dataset of inputs, `target` int32 [B, T] and `continues` int32 [B], and labels int32
        [B, T]. Every word is a label once. Rows that are out of words have labels of pads, and
        inputs of end marks, so that all rows are of one length.
    """
    steps = cut.steps(len(words))
    missing = cut.rows * steps - len(words)
    labels = np.concatenate([words, np.full([missing], PAD_ID, np.int32)])
    # The word before the first is the end of a line that nobody has seen.
    inputs = np.concatenate([[END_ID], words, np.full([missing], END_ID)])[: len(labels)]
    count = cut.segments(len(words))
    goes_on = np.ones([count, cut.rows], np.int32) if restarts is None else 1 - restarts
    goes_on[:1] = 0
    goes_on = tf.constant(goes_on, tf.int32)  # [segments, B]
    by_row = tf.constant(np.stack([inputs, labels]).reshape([2, cut.rows, steps]), tf.int32)

    def segment(index: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        start = index * cut.length
        both = by_row[:, :, start : start + cut.length]  # [2, B, T]
        return {TARGET: both[0], CONTINUES: goes_on[index]}, both[1]

    segments = tf.data.Dataset.range(min(skip, count), count)
    options = tf.data.Options()
    options.autotune.enabled = False
    return segments.map(segment).prefetch(_AHEAD).with_options(options)


def draw_restarts(share: float, cut: StreamCut, words: int, seed: int, epoch: int) -> np.ndarray:
    """Where rows start anew, a function of seed and epoch.

    Along a whole epoch a state drifts to where no served text has ever been, and a model that
    has seen nothing else for long is at a loss at the beginning of one.

    Args:
        share: Of the rows of a segment.
        cut: How the stream is cut.
        words: Words of the stream.
        seed: Of the experiment.
        epoch: From 0.

    Returns:
        Bool [segments, B].
    """
    generator = np.random.default_rng([seed, epoch])
    return generator.random([cut.segments(words), cut.rows]) < share


def read_stream(shards: Sequence[Place]) -> np.ndarray:
    """The stream of record files, one file after another, int32 [N]."""
    paths = record_files(shards)
    if not paths:
        return np.zeros([0], np.int32)
    compression = "GZIP" if paths[0].endswith(".gz") else ""
    spec = {TARGET_IDS: feature_description()[TARGET_IDS]}
    parts = []
    for records in tf.data.TFRecordDataset(paths, compression).batch(_PARSED_AT_ONCE):
        ids = tf.cast(tf.io.parse_example(records, spec)[TARGET_IDS], tf.int32)  # [P, (S)]
        ends = tf.fill([ids.nrows(), 1], END_ID)  # [P, 1]
        parts.append(tf.concat([ids, ends], 1).flat_values.numpy())
    return np.concatenate(parts) if parts else np.zeros([0], np.int32)


def in_order_of(epoch: int, seed: int, shards: Sequence[Place]) -> list[Place]:
    """Shards in an order that seed and epoch decide; lines keep theirs within a shard."""
    shuffled = list(shards)
    random.Random(f"{seed} {epoch}").shuffle(shuffled)
    return shuffled
