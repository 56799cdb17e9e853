"""What a model is worth on a split, by its losses."""

import dataclasses
from typing import Any

import tensorflow as tf

from models.losses import perplexity
from models.sequence_model import LossSums, SequenceModel
from pipeline.train.replicas import Batch, Replicas, own_part, sum_over_replicas


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


def validation_step(model: SequenceModel, strategy: tf.distribute.Strategy) -> Any:
    """Full softmax losses of a batch, without dropout, summed over replicas.

    Args:
        model: The model, made in the strategy's scope.
        strategy: Of the run.

    Returns:
        A `tf.function` from a batch to its `LossSums`.
    """

    def validate_part(batch: Batch) -> LossSums:
        inputs, labels = own_part(batch)
        sums = model.loss_sums(inputs, labels, tf.zeros([2], tf.int32), training=False)
        return LossSums(*sum_over_replicas(list(sums)))

    @tf.function(reduce_retracing=True)
    def validate(batch: Batch) -> LossSums:
        return strategy.run(validate_part, args=(batch,))

    return validate


def measure_losses(
    validate: Any,
    batches: tf.data.Dataset,
    replicas: Replicas,
) -> Losses:
    """Losses of a whole split.

    Args:
        validate: What `validation_step` gives.
        batches: The batches of the split.
        replicas: Of the run; each is given its rows of a batch.
    """
    loss = correct = tokens = 0.0
    parts = replicas.split(batches)
    validate.get_concrete_function(parts.element_spec)  # One for all sizes.
    for batch in parts:
        # Summed over replicas, each of which has the sums.
        local = replicas.strategy.experimental_local_results
        sums = LossSums(*(local(each)[0] for each in validate(batch)))
        loss += float(sums.loss)
        correct += float(sums.correct)
        tokens += float(sums.tokens)
    return Losses(loss / max(tokens, 1.0), correct / max(tokens, 1.0), int(tokens))
