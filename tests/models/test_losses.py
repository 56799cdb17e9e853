import keras
import keras_nlp
import numpy as np
import pytest
import tensorflow as tf

from models.losses import (
    SAMPLED_LOSSES,
    FullSoftmax,
    NoiseContrastiveEstimation,
    SampledSoftmax,
    perplexity,
)
from models.projection import VocabularyProjection
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.losses import (
    cross_entropy,
    noise_contrastive,
    noise_distribution,
    project,
    sampled_softmax,
)

VOCABULARY, FEATURES = 6, 3
LABELS = np.array([4, 0, 5, 4], np.int32)
COUNTS = [0, 2, 0, 30, 100, 7]
SEED = tf.constant([3, 11], tf.int32)

REFERENCES = {"nce": noise_contrastive, "sampled": sampled_softmax}

every_sampled_loss = pytest.mark.parametrize("kind", SAMPLED_LOSSES)
every_loss = pytest.mark.parametrize(
    "loss",
    [FullSoftmax(0.1), *(kind(COUNTS, 4) for kind in SAMPLED_LOSSES.values())],
    ids=["full", *SAMPLED_LOSSES],
)


def make_projection():
    projection = VocabularyProjection(VOCABULARY, FEATURES)
    projection.build()
    return randomize(projection)


def run(loss, projection, features, seed=SEED):
    return loss(features, tf.constant(LABELS), projection, seed)


def noise_of(distortion, count, seed=SEED):
    """The words that are drawn: the inverse of the cumulative distribution at flat numbers."""
    flat = tf.random.stateless_uniform([count], seed, dtype=tf.float64).numpy()
    cumulative = np.cumsum(noise_distribution(COUNTS, distortion))
    return np.searchsorted(cumulative, flat, side="right")


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


def test_the_references_cover_every_sampled_loss():
    assert REFERENCES.keys() == SAMPLED_LOSSES.keys()


@pytest.mark.usefixtures("float64")
@every_sampled_loss
@pytest.mark.parametrize(("noise_words", "distortion"), [(1, 0.75), (8, 1.0), (20, 0.0)])
def test_a_sampled_loss_is_the_equation(kind, noise_words, distortion):
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    loss = SAMPLED_LOSSES[kind](COUNTS, noise_words, distortion)
    outcome = run(loss, projection, features)
    assert outcome.predictions is None and outcome.losses.dtype == tf.float32
    wanted = REFERENCES[kind](
        features.numpy(),
        LABELS,
        *projection.get_weights(),
        noise_of(distortion, noise_words),
        noise_distribution(COUNTS, distortion),
    )
    close(outcome.losses, wanted)


@pytest.mark.usefixtures("float64")
@every_sampled_loss
def test_gradients_of_a_sampled_loss_are_those_of_the_equation(kind):
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    loss_function = SAMPLED_LOSSES[kind](COUNTS, 8)
    noise, probabilities = noise_of(0.75, 8), noise_distribution(COUNTS, 0.75)

    def loss():
        return tf.reduce_sum(run(loss_function, projection, features).losses)

    def reference(arrays):
        given = arrays["features"], LABELS, *arrays["weights"], noise, probabilities
        return REFERENCES[kind](*given).sum()

    variables = {"features": features, "weights": projection.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference)


def test_words_drawn_twice_are_left_out_twice_where_they_are_the_label():
    """The draw holds the labels 4 and 5, and one of them again; TensorFlow removes one alone."""
    noise = noise_of(1.0, 8)
    assert (noise == 4).sum() > 1 and (noise == 3).sum() > 1
    projection = make_projection()
    high = np.where(np.arange(VOCABULARY) == 4, 8.0, 0.0)
    projection.set_weights([np.zeros((VOCABULARY, FEATURES)), high])
    labels = np.array([4, 3], np.int32)
    loss = SampledSoftmax(COUNTS, 8, 1.0)
    found = loss(tf.zeros([2, FEATURES]), tf.constant(labels), projection, SEED).losses
    shares = noise_distribution(COUNTS, 1.0)
    given = np.zeros((2, FEATURES)), labels, *projection.get_weights(), noise, shares
    close(found, sampled_softmax(*given))
    # With a 4 left in the row of the label 4, its loss would be log 2 at least.
    assert found[0] < 0.1


def test_with_much_noise_the_sampled_softmax_is_the_full_one():
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    close(
        run(SampledSoftmax(COUNTS, 5000), projection, features).losses,
        run(FullSoftmax(), projection, features).losses,
    )


@every_sampled_loss
def test_only_rows_of_labels_and_noise_words_are_read(kind):
    """Gradients are rows, and the table is looked up where it lies."""
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    loss = SAMPLED_LOSSES[kind](COUNTS, 2)
    variables = [each.value for each in projection.trainable_variables]

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            losses = run(loss, projection, features).losses
        return tape.gradient(losses, variables)

    wanted = {*LABELS, *noise_of(0.75, 2)}
    for found in gradients():
        assert isinstance(found, tf.IndexedSlices)
        assert set(found.indices.numpy()) == wanted
    operations = gradients.get_concrete_function().graph.get_operations()
    assert "ReadVariableOp" not in {each.type for each in operations}


@every_sampled_loss
def test_the_noise_is_a_function_of_the_seed(kind):
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    loss = SAMPLED_LOSSES[kind](COUNTS, 5)
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


@every_sampled_loss
def test_words_never_seen_have_a_finite_loss(kind):
    projection = make_projection()
    loss = SAMPLED_LOSSES[kind](np.zeros(VOCABULARY, np.int64), 4)
    assert np.isfinite(run(loss, projection, tf.ones([len(LABELS), FEATURES])).losses).all()


@every_loss
def test_no_words_have_no_losses(loss):
    none = loss(tf.zeros([0, FEATURES]), tf.zeros([0], tf.int32), make_projection(), SEED)
    assert none.losses.shape == (0,)


@pytest.fixture(params=["mixed_bfloat16", "mixed_float16", "float16"])
def half(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield keras.config.dtype_policy().compute_dtype
    keras.config.set_dtype_policy(before)


@every_loss
def test_under_half_precision_losses_are_in_float32(loss, half):
    projection, features = make_projection(), random_tensor(len(LABELS), FEATURES)
    assert features.dtype == half
    rounded = run(loss, projection, features).losses
    exact = run(loss, projection, tf.cast(features, tf.float32)).losses
    assert rounded.dtype == tf.float32
    np.testing.assert_allclose(rounded, exact, rtol=0.03)


@every_loss
def test_under_half_precision_large_scores_have_finite_losses_and_gradients(loss, half):
    projection = make_projection()
    features = 100.0 * random_tensor(len(LABELS), FEATURES)
    with tf.GradientTape() as tape:
        tape.watch(features)
        losses = run(loss, projection, features).losses
    assert np.isfinite(losses).all()
    for gradient in tape.gradient(losses, [features, projection.kernel.value]):
        assert np.isfinite(tf.cast(tf.convert_to_tensor(gradient), tf.float32)).all()


def test_perplexity_is_the_same_number_from_nats_and_from_bits():
    chances = np.array([0.5, 0.25, 0.1])
    assert perplexity(-np.log(chances).mean()) == pytest.approx(2.0 ** -np.log2(chances).mean())
    assert perplexity(np.log(7.0)) == pytest.approx(7.0)  # as of seven words, all equally likely


def test_perplexity_of_a_diverged_model_is_a_number():
    assert np.isfinite(perplexity(1e9))


def test_perplexity_is_what_keras_nlp_measures():
    """Over all words but pads, batch by batch."""
    generator = np.random.default_rng(0)
    metric = keras_nlp.metrics.Perplexity(from_logits=True, mask_token_id=0)
    loss, words = 0.0, 0
    for rows in (3, 5):
        logits = generator.normal(size=(rows, 4, VOCABULARY)).astype(np.float32)
        labels = generator.integers(0, VOCABULARY, (rows, 4))
        metric.update_state(labels, logits)
        real = labels != 0
        loss += cross_entropy(logits[real], labels[real]).sum()
        words += real.sum()
    assert perplexity(loss / words) == pytest.approx(float(metric.result()), rel=1e-5)
