"""What was learned elsewhere learns on more slowly."""

from collections.abc import Sequence

import keras
import tensorflow as tf


def slow_down(
    optimizer: keras.optimizers.Optimizer, variables: Sequence[keras.Variable], share: float
) -> None:
    """Let an optimizer change some variables by a share of its learning rate.

    Gradients as such would not do: Adam takes their scale out again.

    Args:
        optimizer: The optimizer; not one that scales the loss, but what it holds.
        variables: The variables.
        share: Of the rate.
    """
    slow = {optimizer._var_key(variable) for variable in variables}
    update = optimizer.update_step

    def update_step(
        gradient: tf.Tensor | tf.IndexedSlices, variable: tf.Variable, learning_rate: tf.Tensor
    ) -> None:
        if optimizer._var_key(variable) in slow:
            learning_rate *= share
        update(gradient, variable, learning_rate)

    if slow:
        optimizer.update_step = update_step
