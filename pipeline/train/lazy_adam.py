"""Adam that leaves alone the rows that a batch does not touch."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("seqloom")
class LazyAdam(keras.optimizers.Adam):
    """Adam (Kingma & Ba 2015) whose cost goes by the rows of a batch, not by the vocabulary.

    Dense gradients are applied as Adam applies them. Of a gradient that is rows of a table, only
    those rows and their moments are read and written. It is another algorithm than Adam: the
    moments of a row that is not in the batch neither decay nor move it, and are as old as the
    row's last batch when it comes again. The bias correction counts all steps. A row that is in
    every batch learns as under Adam.

    Args: of `keras.optimizers.Adam`, `amsgrad` aside.
    """

    def update_step(
        self,
        gradient: tf.Tensor | tf.IndexedSlices,
        variable: tf.Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        """Update a variable; rows of a gradient stand once each."""
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index].value, self._velocities[index].value
        rows, values = gradient.indices, tf.cast(gradient.values, variable.dtype)  # [R], [R, ...]
        step = tf.cast(self.iterations + 1, variable.dtype)
        rate = tf.cast(learning_rate, variable.dtype)
        rate *= tf.sqrt(1.0 - self.beta_2**step) / (1.0 - self.beta_1**step)
        first = tf.gather(momentum, rows)  # [R, ...]
        first += (values - first) * (1.0 - self.beta_1)
        second = tf.gather(velocity, rows)  # [R, ...]
        second += (tf.square(values) - second) * (1.0 - self.beta_2)
        momentum.scatter_update(tf.IndexedSlices(first, rows))
        velocity.scatter_update(tf.IndexedSlices(second, rows))
        change = first * rate / (tf.sqrt(second) + self.epsilon)  # [R, ...]
        variable.scatter_sub(tf.IndexedSlices(change, rows))
