"""What a model is worth on a split, by its losses."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from models.losses import perplexity
from models.sequence_model import LossSums
from pipeline.train.replicas import Replicas


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
        return perplexity(self.loss)


def measure_losses(
    validate: Callable[[tuple], LossSums],
    batches: tf.data.Dataset,
    replicas: Replicas,
) -> Losses:
    """Losses of a whole split.

    Args:
        validate: Sums of the full softmax loss of a batch.
        batches: The batches of the split.
        replicas: Of the run; each is given its rows of a batch.
    """
    loss = correct = tokens = 0.0
    for batch in replicas.split(batches):
        # Summed over replicas, each of which has the sums.
        local = replicas.strategy.experimental_local_results
        sums = LossSums(*(local(each)[0] for each in validate(batch)))
        loss += float(sums.loss)
        correct += float(sums.correct)
        tokens += float(sums.tokens)
    return Losses(loss / max(tokens, 1.0), correct / max(tokens, 1.0), int(tokens))
