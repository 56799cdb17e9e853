"""Curves, and the charts that draw several of them together."""

import re

from tensorboard.plugins.custom_scalar import layout_pb2

from pipeline.monitor.event_log import EventLog
from pipeline.monitor.panel import Observation
from pipeline.monitor.scalars import COMPARED, Charts, Scalars


def test_training_and_validation_have_curves_of_their_own(tmp_path, read_events):
    log = EventLog(tmp_path)
    Scalars().show(Observation(5, training={"loss": 2.0}), log)
    Scalars().show(Observation(6, validation={"loss": 1.0}), log)
    log.close()
    events = read_events(tmp_path)
    assert events.tags() == {"train/loss", "valid/loss"}
    assert (events.steps("train/loss"), events.steps("valid/loss")) == ([5], [6])


def test_figures_without_a_description_are_drawn_too(tmp_path, read_events):
    log = EventLog(tmp_path)
    Scalars().show(Observation(5, training={"teacher_forcing": 0.5}), log)
    log.close()
    assert read_events(tmp_path).values("train/teacher_forcing") == [0.5]


def test_the_layout_is_written_once(tmp_path, read_events):
    log, charts = EventLog(tmp_path), Charts()
    charts.show(Observation(5), log)
    charts.show(Observation(6), log)
    log.close()
    events = read_events(tmp_path)
    (tag,) = events.tags()
    assert events.steps(tag) == [5]
    (category,) = layout_pb2.Layout.FromString(events.values(tag)[0]).category
    assert {chart.title: tuple(chart.multiline.tag) for chart in category.chart} == COMPARED


def test_the_names_in_charts_match_their_own_curves_alone():
    tags = {tag for compared in COMPARED.values() for tag in compared}
    for pattern in tags:
        assert [tag for tag in tags if re.match(pattern, tag)] == [pattern]
