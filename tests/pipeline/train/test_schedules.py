"""Learning rates against their formulas."""

import math

import keras
import pytest

from pipeline.experiment import ScheduleOptions
from pipeline.train.schedules import WarmUpThenDecay


def rates(options, steps, peak=0.5):
    schedule = WarmUpThenDecay(peak, ScheduleOptions(**options))
    return [float(schedule(step)) for step in steps]


def test_constant_without_warm_up():
    assert rates({}, [0, 1, 1000]) == [0.5, 0.5, 0.5]


def test_warm_up_is_linear_and_reaches_the_peak():
    assert rates({"warmup_steps": 4}, range(6)) == pytest.approx(
        [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]
    )


def test_exponential_starts_late_and_stops_at_the_minimum():
    options = {
        "decay": "exponential",
        "decay_start": 10,
        "decay_steps": 5,
        "decay_rate": 0.5,
        "minimum": 0.1,
    }
    found = rates(options, [0, 10, 15, 20, 100])
    assert found == pytest.approx([0.5, 0.5, 0.25, 0.125, 0.1])


def test_cosine_falls_to_the_minimum_and_stays():
    options = {"decay": "cosine", "decay_steps": 8, "minimum": 0.1}
    expected = [0.1 + 0.4 * 0.5 * (1 + math.cos(math.pi * min(t / 8, 1))) for t in (0, 2, 8, 50)]
    assert rates(options, [0, 2, 8, 50]) == pytest.approx(expected)


def test_inverse_square_root_is_continuous_at_the_end_of_the_warm_up():
    options = {"decay": "inverse_sqrt", "warmup_steps": 100}
    assert rates(options, [99, 399]) == pytest.approx([0.5, 0.5 * math.sqrt(100 / 400)])


def test_survives_the_optimizer_config():
    optimizer = keras.optimizers.SGD(WarmUpThenDecay(0.5, ScheduleOptions(warmup_steps=4)))
    with keras.utils.custom_object_scope({"WarmUpThenDecay": WarmUpThenDecay}):
        again = keras.optimizers.SGD.from_config(optimizer.get_config())
    assert float(again.learning_rate) == pytest.approx(float(optimizer.learning_rate))
