"""The small network against NumPy, and equal neighbours that it sees once."""

import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.vision.kinds import make_backbone
from models.vision.neighbours import distinct_neighbours
from tests.models.examples import close, randomize
from tests.models.reference.pictures import small_network


def test_a_grid_is_that_of_the_equations():
    network = make_backbone("small")
    network.build()
    randomize(network, scale=0.1)
    pixels = np.random.default_rng(1).integers(0, 255, (2, 16, 8, 3), np.uint8)
    found = network(tf.constant(pixels))
    assert found.shape == (2, 2, 1, network.feature_size)
    close(found, small_network(pixels.astype(np.float64), network.get_weights()), 1e-4)


def test_sixty_four_pixels_become_eight_cells():
    network = make_backbone("small")
    size = network.picture_size
    assert network(tf.zeros([1, size, size, 3])).shape == (1, 8, 8, network.feature_size)
    again = type(network).from_config(network.get_config())
    assert again.get_config() == network.get_config()


@pytest.mark.parametrize("weights", ["imagenet", "some.weights.h5"])
def test_it_has_no_weights_to_load(weights):
    with pytest.raises(UserError, match=f"is '{weights}'.*set it to null"):
        make_backbone("small", weights)


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [([5, 5, 6, 6, 6, 5], [5, 6, 5]), ([7], [7]), ([1, 2, 1], [1, 2, 1]), ([4, 4], [4]), ([], [])],
)
def test_of_equal_neighbours_one_is_kept(numbers, kept):
    pictures = tf.constant(np.array(numbers, np.uint8).reshape(-1, 1, 1, 1)) * tf.ones(
        [1, 2, 2, 3], tf.uint8
    )
    found = tf.function(distinct_neighbours)(pictures)
    assert found.pictures[:, 0, 0, 0].numpy().tolist() == kept
    np.testing.assert_array_equal(tf.gather(found.pictures, found.places), pictures)


def test_pictures_that_differ_in_one_number_are_two():
    picture = np.zeros([2, 4, 4, 3], np.uint8)
    picture[1, 3, 3, 2] = 1
    assert len(distinct_neighbours(tf.constant(picture)).pictures) == 2
