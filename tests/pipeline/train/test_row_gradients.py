import numpy as np
import tensorflow as tf

from pipeline.train.row_gradients import merge_rows, scale

VALUES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [-1.0, 0.5]], np.float32)
ROWS = np.array([4, 0, 4, 2])


def slices():
    return tf.IndexedSlices(tf.constant(VALUES), tf.constant(ROWS), tf.constant([6, 2]))


def test_a_row_that_comes_twice_stands_once_with_the_sum():
    merged = merge_rows(slices())
    np.testing.assert_array_equal(merged.indices, [4, 0, 2])
    np.testing.assert_array_equal(merged.values, [[6.0, 8.0], [3.0, 4.0], [-1.0, 0.5]])
    np.testing.assert_array_equal(tf.convert_to_tensor(merged), tf.convert_to_tensor(slices()))


def test_no_row_gives_no_row():
    none = tf.IndexedSlices(tf.zeros([0, 2]), tf.zeros([0], tf.int64), tf.constant([6, 2]))
    assert merge_rows(none).values.shape == (0, 2)


def test_dense_gradients_stay():
    dense = tf.constant(VALUES)
    assert merge_rows(dense) is dense


def test_scaling_keeps_rows_rows():
    scaled = scale(slices(), tf.constant(0.5))
    np.testing.assert_array_equal(scaled.values, VALUES / 2)
    np.testing.assert_array_equal(scaled.indices, ROWS)
    np.testing.assert_array_equal(scale(tf.constant(VALUES), tf.constant(2.0)), VALUES * 2)
