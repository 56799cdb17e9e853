import math

import numpy as np
import pytest
import tensorflow as tf

from models.projection import VocabularyProjection
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.losses import project

VOCABULARY, FEATURES = 5, 3


def make():
    projection = VocabularyProjection(VOCABULARY, FEATURES)
    projection.build()
    return projection


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 1, 3)])
def test_forward_is_the_equation_for_any_leading_axes(shape):
    projection = randomize(make())
    features = random_tensor(*shape, FEATURES)
    logits = projection(features)
    assert logits.dtype == tf.float32 and logits.shape == (*shape, VOCABULARY)
    close(logits, project(features.numpy(), *projection.get_weights()))


@pytest.mark.usefixtures("float64")
def test_gradients_are_those_of_the_equation():
    projection = randomize(make())
    features = random_tensor(2, 2, FEATURES)
    sides = random_tensor(2, 2, VOCABULARY, seed=1).numpy().astype(np.float32)

    def loss():
        return tf.reduce_sum(projection(features) * sides)

    def reference(arrays):
        return (project(arrays["features"], *arrays["weights"]) * sides).sum()

    variables = {"features": features, "weights": projection.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference)


def test_excluded_words_cannot_come_and_the_others_keep_their_scores():
    projection = randomize(make())
    features = random_tensor(2, 3, FEATURES)
    free, bound = projection(features).numpy(), projection(features, excluded=(0, 3)).numpy()
    np.testing.assert_array_equal(bound[..., [1, 2, 4]], free[..., [1, 2, 4]])
    probabilities = tf.nn.softmax(bound).numpy()
    assert not probabilities[..., [0, 3]].any() and np.isfinite(bound).all()


@pytest.mark.parametrize("rows", [1, 11, 12, 40])
@pytest.mark.parametrize("fewer", [1, 2])
def test_it_is_the_same_made_ready_for_a_loop(rows, fewer):
    projection = randomize(make())
    project = tf.function(
        lambda features: projection.for_loop(tf.constant(rows * fewer), (0, 3))(features)
    )
    features = random_tensor(rows, 1, FEATURES)
    close(project(features), projection(features, excluded=(0, 3)))


def test_no_rows_give_no_logits():
    assert make()(tf.zeros([0, 2, FEATURES])).shape == (0, 2, VOCABULARY)
    assert make()(tf.zeros([0, FEATURES])).shape == (0, VOCABULARY)


def test_the_first_scores_are_log_probabilities_of_a_flat_distribution():
    logits = make()(tf.zeros([1, FEATURES]))
    np.testing.assert_allclose(logits, -math.log(VOCABULARY), rtol=1e-6)
    np.testing.assert_allclose(tf.reduce_logsumexp(logits, -1), 0.0, atol=1e-6)


@pytest.mark.usefixtures("mixed_bfloat16")
def test_under_bfloat16_the_product_rounds_but_the_bias_does_not():
    projection = randomize(make())
    kernel, bias = projection.get_weights()
    bias[:] = 1.0 + 2.0**-20
    projection.set_weights([kernel, bias])
    features = random_tensor(4, FEATURES)
    assert features.dtype == tf.bfloat16
    logits = projection(features)
    assert logits.dtype == tf.float32
    products = tf.matmul(features, tf.cast(kernel, tf.bfloat16), transpose_b=True)
    np.testing.assert_array_equal(logits, tf.cast(products, tf.float32) + bias)


def test_a_layer_made_from_its_configuration_is_equal():
    projection = randomize(make())
    again = VocabularyProjection.from_config(projection.get_config())
    again.build()
    again.set_weights(projection.get_weights())
    assert again.get_config() == projection.get_config()
    features = random_tensor(2, FEATURES)
    close(again(features), projection(features), 0.0)


def test_it_starts_from_the_unigram_distribution():
    projection = make()
    projection.start_from(np.array([0, 1, 3, 5, 10]))  # a word never seen counts once
    logits = projection(tf.zeros([1, FEATURES]))
    close(tf.exp(logits), np.array([[1, 1, 3, 5, 10]]) / 20)
