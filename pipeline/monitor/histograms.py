"""Distributions of the weights."""

import numpy as np

from pipeline.monitor.event_log import EventLog
from pipeline.monitor.panel import Observation, Panel


class Weights(Panel):
    """Histogram of every trainable weight, at each validation.

    Off by default: a large model's weights take their time to read and count.
    """

    def show(self, observation: Observation, log: EventLog) -> None:
        """Add a histogram a weight."""
        if not observation.validation or observation.model is None:
            return
        for weight in observation.model.trainable_weights:
            values = np.asarray(weight, dtype=np.float32)
            log.histogram(f"weights/{weight.path}", values, observation.step)
