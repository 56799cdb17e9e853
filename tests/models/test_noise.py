import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.noise import NOISES, NoiseWords
from tests.models.reference.losses import log_uniform_distribution, noise_distribution

SEED = tf.constant([3, 11], tf.int32)
FALLING = np.array([0, 5, 0, 90, 40, 40, 7, 0])  # four marks, then words


def test_words_come_as_often_as_their_probabilities_say():
    counts, draws = np.array([0, 2, 0, 30, 100, 7]), 20_000
    shares = noise_distribution(counts, 0.75)
    noise = NoiseWords(NOISES["unigram"](counts, 0.75), draws)
    found = np.bincount(noise.draw(SEED), minlength=len(counts))
    deviations = np.sqrt(draws * shares * (1.0 - shares))
    assert (np.abs(found - draws * shares) < 4.0 * deviations).all()
    np.testing.assert_allclose(noise.expected(np.arange(6)), draws * shares, rtol=1e-6)


def test_the_chance_to_be_drawn_at_all_is_the_share_of_draws_that_hold_a_word():
    shares, draws = np.array([0.6, 0.3, 0.09, 0.01]), 2000
    noise = NoiseWords(shares, 3)
    words = NoiseWords(shares, 3 * draws).draw(SEED).numpy().reshape(draws, 3)
    held = np.array([(words == word).any(1).sum() for word in range(4)])
    chances = noise.chance(np.arange(4)).numpy()
    np.testing.assert_allclose(chances, 1.0 - (1.0 - shares) ** 3, rtol=1e-6)
    assert (np.abs(held / draws - chances) < 4.0 * np.sqrt(chances / draws)).all()


def test_words_rarer_than_float32_tells_apart_near_one_are_drawn():
    """The last thousand words have a share of 2e-9 each, a thirtieth of float32's step at 1."""
    rare = np.full(1000, 2e-9)
    noise = NoiseWords(np.concatenate([[1.0 - rare.sum()], rare]), 4_000_000)
    words = noise.draw(SEED).numpy()
    assert len(np.unique(words[words > 0])) >= 4  # of eight on average


@pytest.mark.parametrize("noise", NOISES)
def test_probabilities_are_a_distribution_without_zeros(noise):
    probabilities = NOISES[noise](FALLING.astype(np.float64), 0.75)
    assert probabilities.shape == FALLING.shape and probabilities.min() > 0.0
    assert probabilities.sum() == pytest.approx(1.0)


def test_log_uniform_noise_is_that_of_tensorflow():
    probabilities = NOISES["log_uniform"](FALLING.astype(np.float64), 0.75)
    np.testing.assert_allclose(probabilities, log_uniform_distribution(len(FALLING)))
    sampled = tf.random.log_uniform_candidate_sampler(
        [list(range(8))], 8, 1000, unique=False, range_max=len(FALLING), seed=1
    )
    np.testing.assert_allclose(sampled.true_expected_count[0], 1000 * probabilities, rtol=1e-4)


def test_log_uniform_noise_refuses_the_first_word_out_of_order():
    counts = np.array([0, 5, 0, 90, 40, 41, 7, 9])
    with pytest.raises(UserError, match=r"id 5 came 41 times and id 4 before it 40 times"):
        NOISES["log_uniform"](counts.astype(np.float64), 0.75)
