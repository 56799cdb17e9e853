"""Gradient clipping."""

from collections.abc import Sequence

import tensorflow as tf

from pipeline.experiment import ClipOptions

Gradients = Sequence[tf.Tensor]


def clip_gradients(gradients: Gradients, options: ClipOptions) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Clip the summed gradients of all replicas (by norm: Pascanu et al. 2013, section 3.2).

    Args:
        gradients: Dense gradients.
        options: `value` bounds each entry, `norm` each gradient's norm, `global_norm` the norm
            of all together, `none` nothing.

    Returns:
        The gradients, and their global norm before clipping, float32 [].
    """
    norm = tf.linalg.global_norm(gradients)
    limit = options.threshold
    if options.kind == "value":
        return [tf.clip_by_value(each, -limit, limit) for each in gradients], norm
    if options.kind == "norm":
        return [tf.clip_by_norm(each, limit) for each in gradients], norm
    if options.kind == "global_norm":
        return list(tf.clip_by_global_norm(gradients, limit, norm)[0]), norm
    return list(gradients), norm
