import numpy as np
import pytest
import tensorflow as tf

from models.losses import FullSoftmax, NoiseContrastiveEstimation
from models.projection import VocabularyProjection
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.losses import (
    cross_entropy,
    noise_contrastive,
    noise_distribution,
    project,
)

VOCABULARY, FEATURES = 6, 3
LABELS = np.array([4, 0, 5, 4], np.int32)
COUNTS = [0, 2, 0, 30, 100, 7]
SEED = tf.constant([3, 11], tf.int32)


def make_projection():
    projection = VocabularyProjection(VOCABULARY, FEATURES)
    projection.build()
    return randomize(projection)


def run(loss, projection, features, seed=SEED):
    return loss(features, tf.constant(LABELS), projection, seed)


def noise_of(loss, count, seed=SEED):
    """The words the loss draws: the inverse of the cumulative distribution at flat numbers."""
    flat = tf.random.stateless_uniform([count], seed).numpy()
    return np.searchsorted(np.cumsum(noise_distribution(COUNTS, loss)), flat, side="right")


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_full_softmax_is_the_equation(smoothing):
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    outcome = run(FullSoftmax(smoothing), projection, features)
    logits = project(features.numpy(), *projection.get_weights())
    assert outcome.losses.dtype == tf.float32
    close(outcome.losses, cross_entropy(logits, LABELS, smoothing))
    np.testing.assert_array_equal(outcome.predictions, logits.argmax(-1))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_of_full_softmax_are_those_of_the_equation(smoothing):
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    shares = np.array([1.0, 2.0, 0.5, 0.0], np.float32)

    def loss():
        return tf.reduce_sum(run(FullSoftmax(smoothing), projection, features).losses * shares)

    def reference(arrays):
        logits = project(arrays["features"], *arrays["weights"])
        return (cross_entropy(logits, LABELS, smoothing) * shares).sum()

    variables = {"features": features, "weights": projection.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference)


def test_smoothing_asks_for_the_flat_distribution_in_its_share():
    """With the whole mass smoothed, equal scores are best; their loss is log V."""
    projection = make_projection()
    projection.set_weights([np.zeros((VOCABULARY, FEATURES)), np.zeros(VOCABULARY)])
    losses = run(FullSoftmax(0.9), projection, tf.ones([len(LABELS), FEATURES])).losses
    np.testing.assert_allclose(losses, np.log(VOCABULARY), rtol=1e-6)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("noise_words", "distortion"), [(1, 0.75), (8, 1.0), (20, 0.0)])
def test_noise_contrastive_estimation_is_the_equation(noise_words, distortion):
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    loss = NoiseContrastiveEstimation(COUNTS, noise_words, distortion)
    outcome = run(loss, projection, features)
    assert outcome.predictions is None and outcome.losses.dtype == tf.float32
    wanted = noise_contrastive(
        features.numpy(),
        LABELS,
        *projection.get_weights(),
        noise_of(distortion, noise_words),
        noise_distribution(COUNTS, distortion),
    )
    close(outcome.losses, wanted)


@pytest.mark.usefixtures("float64")
def test_gradients_of_noise_contrastive_estimation_are_those_of_the_equation():
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    loss_function = NoiseContrastiveEstimation(COUNTS, 8)
    noise, probabilities = noise_of(0.75, 8), noise_distribution(COUNTS, 0.75)

    def loss():
        return tf.reduce_sum(run(loss_function, projection, features).losses)

    def reference(arrays):
        given = arrays["features"], LABELS, *arrays["weights"], noise, probabilities
        return noise_contrastive(*given).sum()

    variables = {"features": features, "weights": projection.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference)


def test_the_noise_is_a_function_of_the_seed():
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    loss = NoiseContrastiveEstimation(COUNTS, 5)
    first = run(loss, projection, features).losses
    np.testing.assert_array_equal(first, run(loss, projection, features).losses)
    compiled = tf.function(lambda seed: run(loss, projection, features, seed).losses)
    np.testing.assert_allclose(compiled(SEED), first, rtol=1e-6)
    assert np.abs(run(loss, projection, features, SEED + 1).losses - first).max() > 1e-3


def test_noise_words_come_as_often_as_their_distorted_counts_say():
    """Seen through the loss: a score raised for one word alone costs each time it is drawn."""
    words, raised = 4000, 4.0
    loss = NoiseContrastiveEstimation(COUNTS, words, 1.0)
    shares = noise_distribution(COUNTS, 1.0)
    expected = np.log(words * shares)
    projection = make_projection()
    zeros = np.zeros((VOCABULARY, FEATURES))

    def cost(bias):
        projection.set_weights([zeros, bias])
        return run(loss, projection, tf.zeros([len(LABELS), FEATURES])).losses.numpy()[1]

    still = np.logaddexp(0.0, -expected)
    moved = np.logaddexp(0.0, raised - expected)
    for word in (1, 3, 4, 5):
        bias = np.where(np.arange(VOCABULARY) == word, raised, 0.0)
        drawn = (cost(bias) - cost(np.zeros(VOCABULARY))) / (moved - still)[word]
        deviation = np.sqrt(words * shares[word] * (1.0 - shares[word]))
        assert abs(drawn - words * shares[word]) < 4.0 * deviation


def test_at_the_true_log_probabilities_the_gradient_vanishes():
    """What the estimator is for: its optimum is the normalised distribution of the data."""
    data = np.array([0.1, 0.25, 0.05, 0.2, 0.3, 0.1])
    labels = np.repeat(np.arange(VOCABULARY), (data * 200).astype(int)).astype(np.int32)
    loss = NoiseContrastiveEstimation([1, 2, 3, 4, 5, 6], 20_000, 1.0)
    projection = make_projection()

    def gradient(bias):
        projection.set_weights([np.zeros((VOCABULARY, FEATURES)), bias])
        with tf.GradientTape() as tape:
            features = tf.zeros([len(labels), FEATURES])
            mean = tf.reduce_mean(loss(features, tf.constant(labels), projection, SEED).losses)
        found = tape.gradient(mean, projection.bias.value)
        return np.abs(tf.convert_to_tensor(found)).max()

    assert gradient(np.log(data)) < 0.01
    assert gradient(np.log(data) + 0.5) > 0.1
    assert gradient(np.log(data[::-1])) > 0.1


def test_words_never_seen_have_a_finite_loss():
    projection = make_projection()
    loss = NoiseContrastiveEstimation(np.zeros(VOCABULARY, np.int64), 4)
    assert np.isfinite(run(loss, projection, tf.ones([len(LABELS), FEATURES])).losses).all()


@pytest.mark.parametrize("loss", [FullSoftmax(0.1), NoiseContrastiveEstimation(COUNTS, 4)])
def test_no_words_have_no_losses(loss):
    none = loss(tf.zeros([0, FEATURES]), tf.zeros([0], tf.int32), make_projection(), SEED)
    assert none.losses.shape == (0,)


@pytest.mark.usefixtures("mixed_bfloat16")
@pytest.mark.parametrize("loss", [FullSoftmax(0.1), NoiseContrastiveEstimation(COUNTS, 4)])
def test_under_bfloat16_losses_are_in_float32(loss):
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    assert features.dtype == tf.bfloat16
    rounded = run(loss, projection, features).losses
    exact = run(loss, projection, tf.cast(features, tf.float32)).losses
    assert rounded.dtype == tf.float32
    np.testing.assert_allclose(rounded, exact, rtol=0.03)
