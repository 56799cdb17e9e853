"""Curves: the figures of training and validation, and the charts that compare them."""

from collections.abc import Mapping

from tensorboard.plugins.custom_scalar import layout_pb2

from pipeline.monitor.event_log import EventLog
from pipeline.monitor.panel import Observation, Panel

TRAINING = "train"
VALIDATION = "valid"

DESCRIPTIONS = {
    "loss": "Cross-entropy in nats a target piece. In training it is the loss that is minimised.",
    "perplexity": "exp of the cross-entropy a target piece.",
    "accuracy": "Share of target pieces, tags or labels that were the most probable one.",
    "learning_rate": "Learning rate of the next update.",
    "gradient_norm": "Global norm of the gradients before clipping.",
    "source_tokens_per_second": "Source pieces trained on a second, pads not counted.",
    "target_tokens_per_second": "Target pieces trained on a second, pads not counted.",
    "sampling_probability": "How probable it is that a word is the model's own, not the right one.",
    "admitted_length": "Longest pair that the epoch trains on, in pieces, its mark included.",
    "self_paced_threshold": "Mean loss a piece, in nats, below which an example counts.",
    "kept_share": "Share of examples that count, by their weights.",
    "bleu": "BLEU of translated validation sentences.",
    "chrf": "chrF of translated validation sentences.",
}

COMPARED = {
    "Loss": ("train/loss", "valid/loss"),
    "Perplexity": ("train/perplexity", "valid/perplexity"),
    "Accuracy": ("train/accuracy", "valid/accuracy"),
    "BLEU and chrF": ("valid/bleu", "valid/chrf"),
    "Tokens a second": (
        "train/source_tokens_per_second",
        "train/target_tokens_per_second",
    ),
}
"""Charts, and the curves that each draws together."""


class Scalars(Panel):
    """Every figure as a curve, under `train/` or `valid/`."""

    def show(self, observation: Observation, log: EventLog) -> None:
        """Add a point to the curve of each figure."""
        self._add(TRAINING, observation.training, observation.step, log)
        self._add(VALIDATION, observation.validation, observation.step, log)

    def _add(self, prefix: str, figures: Mapping[str, float], step: int, log: EventLog) -> None:
        for name, value in figures.items():
            log.scalar(f"{prefix}/{name}", value, step, DESCRIPTIONS.get(name))


class Charts(Panel):
    """The page of custom charts: training beside validation."""

    def __init__(self):
        """Make the panel; it adds the layout once, with the first observation."""
        self._shown = False

    def show(self, observation: Observation, log: EventLog) -> None:
        """Add the layout of the page."""
        if not self._shown:
            log.charts(_layout(), observation.step)
            self._shown = True


def _layout() -> layout_pb2.Layout:
    charts = [
        layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
        for title, tags in COMPARED.items()
    ]
    return layout_pb2.Layout(category=[layout_pb2.Category(title="Learning", chart=charts)])
