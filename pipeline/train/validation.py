"""What a model is worth on a split, by its losses."""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Sequence

import tensorflow as tf

from models.sequence_model import LossSums
from pipeline.batch_plan import BatchOptions
from pipeline.batches import validation_batches


@dataclasses.dataclass(frozen=True)
class Losses:
    """Full softmax losses of a split.

    Attributes:
        loss: Mean negative log probability of a word, in nats, end marks included.
        accuracy: Share of words that were the likeliest.
        tokens: Words.
    """

    loss: float
    accuracy: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """`exp(loss)`: words the model hesitates between."""
        return math.exp(min(self.loss, 700.0))


def measure_losses(
    validate: Callable[[tuple], LossSums],
    shards: Sequence[pathlib.Path],
    options: BatchOptions,
    strategy: tf.distribute.Strategy,
) -> Losses:
    """Losses of a whole split.

    Args:
        validate: Sums of the full softmax loss of a batch.
        shards: Record files of the split.
        options: How batches are cut.
        strategy: Distributes the batches.
    """
    loss = correct = tokens = 0.0
    batches = strategy.experimental_distribute_dataset(validation_batches(shards, options))
    for batch in batches:
        sums = validate(batch)
        loss += float(sums.loss)
        correct += float(sums.correct)
        tokens += float(sums.tokens)
    return Losses(loss / max(tokens, 1.0), correct / max(tokens, 1.0), int(tokens))
