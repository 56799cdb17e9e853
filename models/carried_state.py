"""Recurrent states that are carried from one segment of a text to the next."""

from typing import Any

import tensorflow as tf


class CarriedState:
    """States of parallel rows of a text, between the segments that it is read by.

    Training and validation carry a state each, so that a validation in mid-epoch leaves
    training's as it is. No gradient goes through a carried state: that is what truncates
    backpropagation through time (Williams & Peng 1990).

    They are plain variables, none of the model's weights: a checkpoint of a run holds those of
    training, and an export none.

    Args:
        first: The state before the first segment, any nested structure of tensors [B, ...].
    """

    def __init__(self, first: Any):
        def variables(name: str) -> Any:
            return tf.nest.map_structure(
                lambda part: tf.Variable(part, trainable=False, name=f"{name}_state"), first
            )

        self._kept = {True: variables("training"), False: variables("validation")}

    @property
    def of_training(self) -> list[tf.Variable]:
        """The variables that a training run has to keep."""
        return tf.nest.flatten(self._kept[True])

    def before(self, first: Any, continues: tf.Tensor, training: bool) -> Any:
        """The state that a segment starts from.

        Args:
            first: The state before a first segment, [B, ...] a part. Given each time, since cells
                may learn it.
            continues: Int32 [B], 1 where a row reads on from its segment before, 0 where it
                starts anew.
            training: Whose state.
        """

        def start(kept: tf.Variable, new: tf.Tensor) -> tf.Tensor:
            shape = [-1, *[1] * (new.shape.rank - 1)]
            return tf.where(tf.reshape(continues > 0, shape), kept, new)  # [B, ...]

        return tf.nest.map_structure(start, self._kept[training], first)

    def keep(self, state: Any, training: bool) -> None:
        """Keep the state after a segment."""
        for kept, part in zip(
            tf.nest.flatten(self._kept[training]), tf.nest.flatten(state), strict=True
        ):
            kept.assign(tf.stop_gradient(part))
