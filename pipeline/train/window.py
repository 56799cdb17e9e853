"""What the steps since the last logs came to, and how long they took."""

import contextlib
import time
from collections.abc import Iterator

import tensorflow as tf

from models.losses import perplexity
from pipeline.train.steps import StepSums


class Window:
    """Sums over the steps since the last logs, and the time they took.

    Args:
        strategy: Of the run; outside its scope TensorFlow's current one is another.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._steps: list[StepSums] = []
        self._seconds = 0.0
        self._since = time.perf_counter()

    def add(self, step: StepSums) -> None:
        """Count a step; of replicas, which all report the same, the first."""
        first = self._strategy.experimental_local_results
        self._steps.append(tf.nest.map_structure(lambda each: first(each)[0], step))

    def clear(self) -> None:
        """Begin anew."""
        self._steps = []
        self._seconds = 0.0
        self._since = time.perf_counter()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out of the time what is not training."""
        self._seconds += time.perf_counter() - self._since
        yield
        self._since = time.perf_counter()

    def logs(self) -> dict[str, float]:
        """Means and rates."""
        seconds = max(self._seconds + time.perf_counter() - self._since, 1e-9)
        tokens, loss, correct, counted, examples, kept = (
            sum(float(getattr(step.sums, name)) for step in self._steps)
            for name in ("tokens", "loss", "correct", "counted", "examples", "kept")
        )
        mean = loss / max(tokens, 1.0)
        logs = {
            "loss": mean,
            "gradient_norm": sum(float(step.gradient_norm) for step in self._steps)
            / max(len(self._steps), 1),
            "source_tokens_per_second": sum(float(step.source_tokens) for step in self._steps)
            / seconds,
            "target_tokens_per_second": tokens / seconds,
        }
        if counted:  # A loss that read noise words is no cross entropy of the vocabulary.
            logs["perplexity"] = perplexity(mean)
            logs["accuracy"] = correct / counted
        if examples:
            logs["kept_share"] = kept / examples
        return logs
