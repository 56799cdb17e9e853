"""Writes what TensorBoard reads: one event file a process, under one folder of logs."""

import io
import os
import struct
import time

import numpy as np
from matplotlib.figure import Figure
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as layout_metadata
from tensorboard.plugins.histogram import metadata as histogram_metadata
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar import summary_v2 as scalar_summary
from tensorboard.plugins.text import summary_v2 as text_summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

HISTOGRAM_BUCKETS = 30
_PNG_SIZE = slice(16, 24)
"""Bytes of a PNG that hold its width and height, after the signature and the chunk's head."""


class EventLog:
    """An event file being written.

    A file opens with a mark that tells TensorBoard to forget what earlier files of the folder
    hold beyond the step training resumes from: a run that was killed between a checkpoint
    and the next shows one curve, not two.
    """

    def __init__(self, folder: str | os.PathLike, start_step: int = 0):
        """Open a new event file.

        Args:
            folder: Where event files lie; made if it does not exist.
            start_step: Updates made before this process started. Events of later steps in
                older files are dropped from view; 0 drops all.
        """
        self._writer = EventFileWriter(os.fspath(folder))
        first_step = start_step + 1 if start_step else 0
        started = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._writer.add_event(
            event_pb2.Event(wall_time=time.time(), step=first_step, session_log=started)
        )

    def scalar(self, tag: str, value: float, step: int, description: str | None = None) -> None:
        """Add a point to a curve."""
        self._add(scalar_summary.scalar_pb(tag, float(value), description), step)

    def text(self, tag: str, markdown: str, step: int, description: str | None = None) -> None:
        """Add a text, which TensorBoard renders as Markdown with tables."""
        self._add(text_summary.text_pb(tag, markdown, description), step)

    def picture(
        self,
        tag: str,
        png: bytes,
        size: tuple[int, int],
        step: int,
        description: str | None = None,
    ) -> None:
        """Add a picture.

        Args:
            tag: Name of the picture; one of a later step stands behind the same slider.
            png: The encoded picture.
            size: Width and height in pixels.
            step: Global step.
            description: Markdown shown beside it.
        """
        width, height = (str(length).encode() for length in size)
        tensor = tensor_pb2.TensorProto(
            dtype=types_pb2.DT_STRING, string_val=[width, height, png]
        )  # [3]: width, height, picture
        tensor.tensor_shape.dim.add(size=3)
        metadata = image_metadata.create_summary_metadata(
            display_name=None, description=description
        )
        self._add_tensor(tag, tensor, metadata, step)

    def histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Add the distribution of an array's finite values, of any shape."""
        finite = np.asarray(values, np.float64).ravel()
        finite = finite[np.isfinite(finite)]
        counts, edges = np.histogram(finite, bins=HISTOGRAM_BUCKETS)
        buckets = np.stack([edges[:-1], edges[1:], counts], axis=1)  # [30, 3]
        metadata = histogram_metadata.create_summary_metadata(display_name=None, description=None)
        self._add_tensor(tag, tensor_util.make_tensor_proto(buckets), metadata, step)

    def charts(self, layout: layout_pb2.Layout, step: int) -> None:
        """Say which curves the page of custom charts draws together."""
        tensor = tensor_pb2.TensorProto(
            dtype=types_pb2.DT_STRING, string_val=[layout.SerializeToString()]
        )
        tag = layout_metadata.CONFIG_SUMMARY_TAG
        self._add_tensor(tag, tensor, layout_metadata.create_summary_metadata(), step)

    def flush(self) -> None:
        """Bring everything added so far to the file."""
        self._writer.flush()

    def close(self) -> None:
        """Flush and close the file. Nothing can be added afterwards."""
        self._writer.close()

    def _add_tensor(
        self,
        tag: str,
        tensor: tensor_pb2.TensorProto,
        metadata: summary_pb2.SummaryMetadata,
        step: int,
    ) -> None:
        summary = summary_pb2.Summary()
        summary.value.add(tag=tag, metadata=metadata, tensor=tensor)
        self._add(summary, step)

    def _add(self, summary: summary_pb2.Summary, step: int) -> None:
        event = event_pb2.Event(wall_time=time.time(), step=step, summary=summary)
        self._writer.add_event(event)


def png_of(figure: Figure) -> tuple[bytes, tuple[int, int]]:
    """Draw a figure that has an Agg canvas, cut to what is drawn.

    Args:
        figure: A matplotlib figure.

    Returns:
        The PNG, and its width and height in pixels.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi, bbox_inches="tight", pad_inches=0.1)
    png = buffer.getvalue()
    return png, struct.unpack(">II", png[_PNG_SIZE])
