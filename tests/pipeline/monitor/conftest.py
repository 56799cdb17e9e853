"""Reads logs back the way TensorBoard does, and samples to show."""

import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from pipeline.monitor.panel import ValidationSamples


class Events:
    """The events of a folder, as TensorBoard keeps them."""

    def __init__(self, folder):
        self._kept = EventAccumulator(str(folder))
        self._kept.Reload()

    def tags(self):
        return set(self._kept.Tags()["tensors"])

    def steps(self, tag):
        return [event.step for event in self._kept.Tensors(tag)]

    def values(self, tag):
        return [_value(event.tensor_proto) for event in self._kept.Tensors(tag)]

    def plugin(self, tag):
        return self._kept.SummaryMetadata(tag).plugin_data.plugin_name

    def description(self, tag):
        return self._kept.SummaryMetadata(tag).summary_description


def _value(tensor):
    array = tensor_util.make_ndarray(tensor)
    return array.item() if array.ndim == 0 else array


@pytest.fixture
def read_events():
    return Events


@pytest.fixture
def samples():
    return ValidationSamples(
        sources=["打开 文件", "a | b"],
        references=["open the file", "<b>c</b>"],
        hypotheses=["open file", ""],
        source_tokens=[["▁打开", "▁文件"], ["▁a", "▁|", "▁b"]],
        target_tokens=[["▁open", "▁file"], []],
        alignments=[np.eye(2, dtype=np.float32), np.zeros([0, 3], np.float32)],
    )
