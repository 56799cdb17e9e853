"""Gradients that are rows of a table: an embedding's, or a projection's under a sampled loss.

Most rows of a large vocabulary stand in no batch. Their gradients are zero, and are never made
where the optimizer can do without.
"""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

# Dense, or the rows of a table that have a gradient.
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


def map_values(function: Callable[[tf.Tensor], tf.Tensor], gradient: Gradient) -> Gradient:
    """A gradient with a function over its numbers; one that keeps zero, for rows not there."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def scale(gradient: Gradient, factor: tf.Tensor) -> Gradient:
    """A gradient times a number."""
    return map_values(lambda values: values * factor, gradient)


def add(one: Gradient, other: Gradient) -> Gradient:
    """The sum of two gradients of a kind."""
    if isinstance(one, tf.IndexedSlices):
        values = tf.concat([one.values, other.values], 0)  # [N, ...]
        indices = tf.concat([one.indices, other.indices], 0)  # [N]
        return tf.IndexedSlices(values, indices, one.dense_shape)
    return one + other


def merge_rows(gradient: Gradient) -> Gradient:
    """A gradient in which each row stands once, the sum of all its occurrences.

    A word that stands in a batch twice has two entries, and neither a norm nor a bound nor a
    moment is one of the parts.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)  # [R], [N]
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))  # [R, ...]
    return tf.IndexedSlices(values, rows, gradient.dense_shape)
