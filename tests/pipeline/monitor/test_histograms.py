"""Histograms of a model's weights."""

import keras
import pytest

from pipeline.monitor.event_log import EventLog
from pipeline.monitor.histograms import Weights
from pipeline.monitor.panel import Observation


@pytest.fixture
def model():
    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, name="dense")])


def test_every_weight_is_counted_at_a_validation(tmp_path, read_events, model):
    log = EventLog(tmp_path)
    Weights().show(Observation(9, model, validation={"loss": 1.0}), log)
    log.close()
    events = read_events(tmp_path)
    assert len(events.tags()) == 2
    (kernel,) = [tag for tag in events.tags() if tag.endswith("dense/kernel")]
    assert events.steps(kernel) == [9]
    assert events.values(kernel)[0][:, 2].sum() == 12


def test_nothing_is_counted_at_other_moments(tmp_path, read_events, model):
    log = EventLog(tmp_path)
    Weights().show(Observation(9, model, training={"loss": 1.0}), log)
    Weights().show(Observation(9, None, validation={"loss": 1.0}), log)
    log.close()
    assert read_events(tmp_path).tags() == set()
