"""Gradient clipping."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from pipeline.experiment import ClipOptions
from pipeline.train.row_gradients import Gradient, map_values


def clip_gradients(
    gradients: Sequence[Gradient], options: ClipOptions
) -> tuple[list[Gradient], tf.Tensor]:
    """Clip the summed gradients of all replicas (by norm: Pascanu et al. 2013, section 3.2).

    Args:
        gradients: Dense, or rows of which each stands once.
        options: `value` bounds each entry, `norm` each gradient's norm, `global_norm` the norm
            of all together, `none` nothing.

    Returns:
        The gradients, and their global norm before clipping, float32 [].
    """
    norm = tf.linalg.global_norm(gradients)
    limit = options.threshold
    if options.kind == "value":
        bound = functools.partial(tf.clip_by_value, clip_value_min=-limit, clip_value_max=limit)
        return [map_values(bound, each) for each in gradients], norm
    if options.kind == "norm":
        bound = functools.partial(tf.clip_by_norm, clip_norm=limit)
        return [map_values(bound, each) for each in gradients], norm
    if options.kind == "global_norm":
        return list(tf.clip_by_global_norm(gradients, limit, norm)[0]), norm
    return list(gradients), norm
