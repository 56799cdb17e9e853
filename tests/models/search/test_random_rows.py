"""The cipher against its authors' answers, and what rows may rely on."""

import numpy as np
import pytest
import tensorflow as tf

from models.search.random_rows import row_uniforms, threefry


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers_of_the_authors_of_the_cipher(key, counter, expected):
    """The lines `threefry2x32 20` of Random123's file of known answers."""
    found = threefry(
        tuple(tf.constant(word, tf.uint32) for word in key),
        tuple(tf.constant(word, tf.uint32) for word in counter),
    )
    assert tuple(int(word) for word in found) == expected


def test_a_row_depends_on_its_seed_alone():
    seeds = tf.constant([3, -1, 2**31 - 1, 3, 0])
    found = row_uniforms(seeds, 9).numpy()
    np.testing.assert_array_equal(found[0], found[3])
    np.testing.assert_array_equal(found[1:2], row_uniforms(seeds[1:2], 9))
    np.testing.assert_array_equal(found[:, :4], row_uniforms(seeds, 4))
    assert len({tuple(row) for row in found}) == 4


def test_the_numbers_are_even_and_independent():
    found = row_uniforms(tf.range(200), 500).numpy()
    assert found.dtype == np.float32 and found.min() >= 0.0 and found.max() < 1.0
    counts, _ = np.histogram(found, 20, (0.0, 1.0))
    # 19 degrees of freedom: 43.8 is passed once in a thousand.
    assert ((counts - 5000.0) ** 2 / 5000.0).sum() < 43.8
    for one, other in ((found[:, 1:], found[:, :-1]), (found[1:], found[:-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.012


def test_no_rows_and_no_numbers():
    assert row_uniforms(tf.zeros([0], tf.int32), 3).shape == (0, 3)
    assert row_uniforms(tf.constant([1, 2]), 0).shape == (2, 0)
