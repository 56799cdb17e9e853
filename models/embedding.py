"""Words as rows of a table."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("seqloom")
class Embedding(keras.layers.Embedding):
    """`keras.layers.Embedding` that reads only the rows of its words.

    Keras's reads the whole table and takes rows of what it read, and TensorFlow copies a table
    that is read whole once an optimizer has written single rows into it.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Embeddings, compute dtype [..., E], of ids int32 [...]."""
        return tf.cast(tf.gather(self.embeddings.value, inputs), self.compute_dtype)
