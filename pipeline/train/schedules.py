"""Learning rate over steps."""

import math
from typing import Any

import keras
import tensorflow as tf

from pipeline.experiment import ScheduleOptions


class WarmUpThenDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A linear rise to the peak, then a decay.

    The decays, with p the peak and t the step, from 1 in the last of them: `constant` p;
    `exponential` `p · decay_rate^((t - start) / decay_steps)`; `cosine` half a cosine from p to
    the minimum over `decay_steps` (Loshchilov & Hutter 2017, section 3); `inverse_sqrt`
    `p · sqrt(w / t)`, w the warm-up or 1 without one (Vaswani et al. 2017, section 5.3). The
    start is `decay_start`, or the end of the warm-up if that comes later.

    Args:
        peak: Highest learning rate.
        options: Form and lengths.
    """

    def __init__(self, peak: float, options: ScheduleOptions):
        self.peak = peak
        self.options = options

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        """Learning rate at a step from 0, float32 []."""
        step = tf.cast(step, tf.float32)
        options = self.options
        warm = tf.minimum((step + 1.0) / max(options.warmup_steps, 1), 1.0)
        rate = self.peak * self._decayed(step)
        return tf.maximum(rate, options.minimum) * warm

    def get_config(self) -> dict[str, Any]:
        """Arguments of an equal schedule, as plain values."""
        return {"peak": self.peak, "options": self.options.model_dump()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WarmUpThenDecay":
        """The schedule of a config."""
        return cls(config["peak"], ScheduleOptions(**config["options"]))

    def _decayed(self, step: tf.Tensor) -> tf.Tensor:
        """Share of the peak at a step."""
        options = self.options
        since = tf.maximum(step - float(max(options.decay_start, options.warmup_steps)), 0.0)
        progress = since / float(options.decay_steps)
        if options.decay == "exponential":
            return tf.pow(options.decay_rate, progress)
        if options.decay == "cosine":
            low = options.minimum / self.peak
            return low + (1.0 - low) * 0.5 * (1.0 + tf.cos(math.pi * tf.minimum(progress, 1.0)))
        if options.decay == "inverse_sqrt":
            first = float(max(options.warmup_steps, 1))
            return tf.sqrt(first / tf.maximum(step + 1.0, first))
        return tf.ones([])
