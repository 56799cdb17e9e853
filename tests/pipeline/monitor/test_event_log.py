"""Event files: what is written is what TensorBoard reads, also after a resumed run."""

import struct

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from tensorboard.plugins.custom_scalar import layout_pb2

from pipeline.monitor.event_log import HISTOGRAM_BUCKETS, EventLog, png_of


@pytest.fixture
def clock(monkeypatch):
    """Event files are named by the second, and read in the order of their names."""
    now = [1_700_000_000.0]

    def tick():
        now[0] += 10.0
        return now[0]

    monkeypatch.setattr("tensorboard.summary.writer.event_file_writer.time.time", tick)


def test_scalars_keep_step_value_and_description(tmp_path, read_events):
    log = EventLog(tmp_path)
    log.scalar("train/loss", 2.5, 10, "the loss")
    log.scalar("train/loss", 1.5, 20, "the loss")
    log.close()
    events = read_events(tmp_path)
    assert events.steps("train/loss") == [10, 20]
    assert events.values("train/loss") == [2.5, 1.5]
    assert events.plugin("train/loss") == "scalars"
    assert events.description("train/loss") == "the loss"


def test_pictures_keep_size_and_bytes(tmp_path, read_events):
    log = EventLog(tmp_path)
    log.picture("attention/1", b"\x89PNG picture", (40, 30), 7)
    log.close()
    events = read_events(tmp_path)
    assert events.plugin("attention/1") == "images"
    (value,) = events.values("attention/1")
    assert value.tolist() == [b"40", b"30", b"\x89PNG picture"]


def test_histograms_count_every_finite_value(tmp_path, read_events):
    values = np.append(np.linspace(-1.0, 2.0, 90), [np.nan, np.inf]).reshape(2, 46)
    log = EventLog(tmp_path)
    log.histogram("weights/kernel", values, 3)
    log.close()
    events = read_events(tmp_path)
    assert events.plugin("weights/kernel") == "histograms"
    (buckets,) = events.values("weights/kernel")  # [30, 3]: left, right, count
    assert buckets.shape == (HISTOGRAM_BUCKETS, 3)
    assert (buckets[0, 0], buckets[-1, 1]) == (-1.0, 2.0)
    np.testing.assert_array_equal(buckets[:, 2], np.full(30, 3.0))


def test_charts_are_read_by_the_page_of_custom_charts(tmp_path, read_events):
    layout = layout_pb2.Layout(category=[layout_pb2.Category(title="Learning")])
    log = EventLog(tmp_path)
    log.charts(layout, 0)
    log.close()
    events = read_events(tmp_path)
    (tag,) = events.tags()
    assert events.plugin(tag) == "custom_scalars"
    assert layout_pb2.Layout.FromString(events.values(tag)[0]) == layout


def test_a_flushed_log_is_whole_without_being_closed(tmp_path, read_events):
    log = EventLog(tmp_path)
    log.text("translations", "*text*", 5)
    log.flush()
    assert read_events(tmp_path).values("translations")[0] == b"*text*"
    log.close()


def test_a_resumed_run_replaces_what_was_logged_after_its_step(tmp_path, read_events, clock):
    killed = EventLog(tmp_path)
    for step in (10, 20, 30, 40):
        killed.scalar("train/loss", float(step), step)
    killed.close()
    resumed = EventLog(tmp_path, start_step=20)
    resumed.scalar("train/loss", -30.0, 30)
    resumed.close()
    events = read_events(tmp_path)
    assert events.steps("train/loss") == [10, 20, 30]
    assert events.values("train/loss") == [10.0, 20.0, -30.0]


def test_a_new_run_in_the_same_folder_replaces_all(tmp_path, read_events, clock):
    first = EventLog(tmp_path)
    first.scalar("train/loss", 1.0, 0)
    first.scalar("train/loss", 1.0, 10)
    first.close()
    second = EventLog(tmp_path)
    second.scalar("train/loss", 2.0, 5)
    second.close()
    events = read_events(tmp_path)
    assert events.steps("train/loss") == [5]


def test_png_of_tells_the_size_of_the_picture():
    figure = Figure(figsize=(2, 1), dpi=50)
    FigureCanvasAgg(figure)
    figure.add_axes((0, 0, 1, 1))
    png, size = png_of(figure)
    assert png.startswith(b"\x89PNG")
    assert size == struct.unpack(">II", png[16:24])
    assert size[0] > size[1]
