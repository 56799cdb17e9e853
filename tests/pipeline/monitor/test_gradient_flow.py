"""Pictures of how far back gradients reach."""

import numpy as np

from models.gradient_flow import LayerFlow
from pipeline.monitor.callbacks import DEFAULT_PANELS, build_callbacks, show_gradient_flow
from pipeline.monitor.event_log import EventLog
from pipeline.monitor.gradient_flow import GradientFlow, draw
from pipeline.monitor.panel import Observation


def flow(bound=None, hidden=(0.5, 0.25, 0.125), state=None):
    hidden = np.array(hidden)
    return LayerFlow(
        "encoder/rnn",
        np.arange(1, len(hidden) + 1),
        hidden,
        hidden if state is None else np.array(state),
        np.full(len(hidden), 2),
        bound,
    )


def lines(figure):
    (axes,) = figure.axes
    return {line.get_label(): line.get_ydata().tolist() for line in axes.get_lines()}


def test_a_simple_rnn_is_drawn_against_its_bound():
    bound = np.array([0.9, 0.81, 0.729])
    figure = draw(flow(bound))
    assert lines(figure) == {"hidden state": [0.5, 0.25, 0.125], "bound": bound.tolist()}
    (axes,) = figure.axes
    assert axes.get_yscale() == "log" and axes.get_title() == "encoder/rnn"


def test_the_whole_state_is_drawn_where_it_is_more_than_the_hidden_one():
    assert lines(draw(flow(state=(0.9, 0.8, 0.7)))) == {
        "hidden state": [0.5, 0.25, 0.125],
        "whole state": [0.9, 0.8, 0.7],
    }


def test_norms_of_zero_and_far_below_the_scale_can_be_drawn(tmp_path):
    log = EventLog(tmp_path)
    flows = [flow(hidden=(0.0, 0.0, 0.0)), flow(hidden=(1e-30, 1e-200, 0.0))]
    GradientFlow().show(Observation(1, gradient_flow=flows), log)
    log.close()


def test_the_monitor_shows_a_picture_a_layer(tmp_path, read_events):
    assert "gradient_flow" in DEFAULT_PANELS
    callbacks = build_callbacks(tmp_path, total_steps=9)
    show_gradient_flow(callbacks, 7, [flow()])
    callbacks[-1].on_train_end()
    events = read_events(tmp_path)
    assert events.steps("gradient_flow/encoder/rnn") == [7]
    assert events.plugin("gradient_flow/encoder/rnn") == "images"
    assert events.values("gradient_flow/encoder/rnn")[0][2].startswith(b"\x89PNG")


def test_nothing_is_shown_where_nothing_was_measured(tmp_path, read_events):
    log = EventLog(tmp_path)
    GradientFlow().show(Observation(9, validation={"loss": 1.0}), log)
    log.close()
    assert read_events(tmp_path).tags() == set()
