"""Decays against the paper's formulas; draws against their probabilities."""

import math

import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.language_model import LanguageModel
from models.scheduled_sampling import (
    DECAYS,
    ScheduledSampling,
    fold_in,
    mixed,
    mixed_after_the_first,
)
from models.sequence_model import Moment, SequenceModel
from models.special_ids import BEGIN_ID, PAD_ID
from tests.models.examples import (
    VOCABULARY,
    make_model,
    random_ids,
    randomize,
    sentences,
    shifted,
)

RIGHT = tf.constant([[1, 5, 6, 7], [1, 4, 0, 0]])
PREDICTED = tf.constant([[15, 16, 17, 2], [14, 2, 13, 13]])
SHIFTED = np.array([[1, 15, 16, 17], [1, 14, 0, 0]])


def probabilities(steps, **options):
    sampling = ScheduledSampling(**options)
    return [float(sampling.right_probability(step)) for step in steps]


def test_linear():
    found = probabilities([0, 10, 15, 20, 99], decay="linear", decay_start=10, decay_steps=10)
    assert found == pytest.approx([1.0, 1.0, 0.5, 0.0, 0.0])


def test_exponential():
    """`k^t`, Bengio et al. 2015, section 2.4."""
    k = 0.5 ** (1 / 7)
    found = probabilities([1, 3, 7], decay="exponential", decay_steps=7, decay_rate=0.5)
    assert found == pytest.approx([k, k**3, 0.5])


def test_inverse_sigmoid():
    """`k / (k + exp(t / k))`, Bengio et al. 2015, section 2.4."""
    k, steps = 20.0, [1, 20, 60, 200]
    expected = [k / (k + math.exp(t / k)) for t in steps]
    assert probabilities(steps, decay="inverse_sigmoid", decay_steps=20) == pytest.approx(expected)
    half = ScheduledSampling("inverse_sigmoid", decay_steps=20).right_probability
    assert float(half(tf.constant(20 * math.log(20)))) == pytest.approx(0.5)


@pytest.mark.parametrize("decay", DECAYS)
def test_every_decay_starts_at_one_never_rises_and_ends_at_the_minimum(decay):
    options = {"decay": decay, "decay_start": 3, "decay_steps": 10, "minimum": 0.2}
    found = probabilities([0, 1, 2, 3, 4, 9, 30, 1_000_000], **options)
    assert found[:4] == [1.0] * 4
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(0.2)


def test_only_words_after_the_begin_mark_are_replaced():
    def inputs(right_probability):
        return mixed_after_the_first(RIGHT, PREDICTED, right_probability, [1, 2]).numpy()

    np.testing.assert_array_equal(inputs(1.0), RIGHT)
    np.testing.assert_array_equal(inputs(0.0), SHIFTED)


def test_draws_are_by_the_word_and_of_the_seed():
    right, predicted = tf.fill([200, 50], 5), tf.fill([200, 50], 6)

    def inputs(seed):
        return mixed_after_the_first(right, predicted, 0.3, seed).numpy()

    one = inputs([1, 2])
    np.testing.assert_array_equal(one, inputs([1, 2]))
    assert (one != inputs([1, 3])).any()
    replaced = one[:, 1:] == 6
    assert replaced.mean() == pytest.approx(0.7, abs=0.02)
    # Neither rows nor positions are replaced as a whole.
    assert 0.1 < replaced.mean(0).std() * math.sqrt(200) < 1.0
    assert 0.1 < replaced.mean(1).std() * math.sqrt(49) < 1.0


def test_mixing_follows_the_given_draws():
    found = mixed(tf.constant([5, 5, 0]), tf.constant([6, 7, 8]), 0.5, tf.constant([0.4, 0.5, 0.9]))
    assert found.numpy().tolist() == [5, 7, 0]


def test_sampled_words_come_as_often_as_the_model_says():
    logits = tf.math.log(tf.constant([0.1, 0.0, 0.6, 0.3]))
    words = ScheduledSampling("linear").predict(tf.tile(logits[tf.newaxis], [20_000, 1]), [3, 4])
    shares = np.bincount(words.numpy(), minlength=4) / 20_000
    np.testing.assert_allclose(shares, [0.1, 0.0, 0.6, 0.3], atol=0.015)


def test_likeliest_words_need_no_draw():
    sampling = ScheduledSampling("linear", draw="likeliest")
    logits = tf.constant([[[0.0, 3.0, 1.0], [2.0, 0.0, 1.0]]])
    assert sampling.predict(logits, [0, 0]).numpy().tolist() == [[1, 0]]


def test_compiles():
    """XLA draws other numbers than TensorFlow does, and the same ones each time."""

    @tf.function(jit_compile=True)
    def inputs(right, logits, step, seed, draw):
        sampling = ScheduledSampling("inverse_sigmoid", decay_steps=5, draw=draw)
        predicted = sampling.predict(logits, seed)
        return mixed_after_the_first(right, predicted, sampling.right_probability(step), seed)

    logits, step = tf.random.stateless_normal([2, 4, 9], [0, 1]), tf.constant(99, tf.int64)
    one, again = (inputs(RIGHT, logits, step, tf.constant([1, 2]), "sample") for _ in range(2))
    np.testing.assert_array_equal(one, again)
    likeliest = np.concatenate([[[1], [1]], np.argmax(logits, -1)[:, :-1]], 1)
    found = inputs(RIGHT, logits, step, tf.constant([1, 2]), "likeliest")
    np.testing.assert_array_equal(found, np.where(RIGHT == 0, 0, likeliest))


def inputs_of():
    labels = random_ids([3, 5, 1], VOCABULARY, seed=1)
    return {"source": sentences([4, 2, 3]), "target": shifted(labels)}, labels


def sampling_model(name, **options):
    model = make_model(name, scale=1.0)
    model.scheduled_sampling = ScheduledSampling(
        **{"decay": "linear", "decay_steps": 10, "draw": "likeliest", **options}
    )
    return model


def mixed_by_hand(model, inputs, right_probability, uniform, follows_own):
    """Words mixed in Python, each prediction from the right words or from the mixed ones."""
    right = inputs["target"].numpy()
    words = right.copy()
    for row, column in np.ndindex(right.shape):
        if not column or not right[row, column] or uniform[row, column] < right_probability:
            continue
        read = (words if follows_own else right)[row : row + 1, :column]
        one = {"source": inputs["source"][row : row + 1], "target": tf.constant(read)}
        logits = model(one).numpy()[0, -1]
        logits[[PAD_ID, BEGIN_ID]] = -np.inf
        words[row, column] = logits.argmax()
    return words


@pytest.mark.parametrize(
    ("name", "follows_own"), [("luong", False), ("luong-fed", True), ("bahdanau", True)]
)
@pytest.mark.parametrize("right_probability", [0.0, 0.4])
def test_a_models_own_words(name, follows_own, right_probability):
    model = sampling_model(name)
    inputs, _ = inputs_of()
    found = model.with_own_words(inputs, right_probability, tf.constant([3, 4]))
    assert found["source"] is inputs["source"]
    uniform = tf.random.stateless_uniform(inputs["target"].shape, [3, 4]).numpy()
    expected = mixed_by_hand(model, inputs, right_probability, uniform, follows_own)
    np.testing.assert_array_equal(found["target"], expected)
    assert (expected != inputs["target"].numpy()).any()


def test_a_language_models_own_words_follow_the_right_ones():
    model = LanguageModel(VOCABULARY, embedding_size=3, units=3)
    model.build()
    randomize(model, scale=1.0)
    model.scheduled_sampling = ScheduledSampling("linear", draw="likeliest")
    right = inputs_of()[0]["target"].numpy()
    found = model.with_own_words({"target": right}, 0.0, tf.constant([3, 4]))["target"].numpy()
    logits = model({"target": right}).numpy()
    logits[..., [PAD_ID, BEGIN_ID]] = -np.inf
    expected = np.concatenate([right[:, :1], logits.argmax(-1)[:, :-1]], 1)
    np.testing.assert_array_equal(found, np.where(right == PAD_ID, PAD_ID, expected))
    half = model.with_own_words({"target": right}, 0.5, tf.constant([3, 4]))["target"].numpy()
    assert ((half == right) | (half == found)).all()


@pytest.mark.parametrize("name", ["luong", "bahdanau"])
def test_sampled_words_differ_by_seed_alone(name):
    model = sampling_model(name, draw="sample")
    inputs, _ = inputs_of()

    @tf.function(reduce_retracing=True)
    def own(seed):
        return model.with_own_words(inputs, 0.0, seed)["target"]

    one, again, other = (own(tf.constant(seed)).numpy() for seed in ([3, 4], [3, 4], [3, 5]))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert ((one == 0) == (inputs["target"].numpy() == 0)).all()


@pytest.mark.parametrize("name", ["luong", "bahdanau"])
def test_the_loss_and_its_gradients_are_those_of_the_mixed_words(name):
    """Nothing flows through the words that were drawn."""
    model = sampling_model(name)
    inputs, labels = inputs_of()
    moment = Moment(tf.constant(7, tf.int64), tf.constant(0, tf.int64))
    seed = tf.constant([3, 4])

    def outcome(inputs, moment):
        variables = [variable.value for variable in model.trainable_variables]
        with tf.GradientTape() as tape:
            sums = model.loss_sums(inputs, labels, seed, moment=moment)
        gradients = tape.gradient(sums.loss, variables)
        return sums.loss, [tf.convert_to_tensor(each) for each in gradients]

    loss, gradients = outcome(inputs, moment)
    mixed_inputs = model.with_own_words(inputs, 0.3, fold_in(seed, 1))
    assert (mixed_inputs["target"].numpy() != inputs["target"].numpy()).any()
    expected, wanted = outcome(mixed_inputs, None)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    for one, two in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
    plain = model.loss_sums(inputs, labels, seed).loss
    assert abs(float(plain) - float(loss)) > 1e-3
    validation = model.loss_sums(inputs, labels, seed, training=False, moment=moment).loss
    np.testing.assert_allclose(validation, plain, rtol=1e-6)


def test_a_model_that_reads_no_words_of_its_own_says_so():
    class Plain(SequenceModel):
        def features(self, inputs, training=False):
            return inputs

    with pytest.raises(UserError, match="train.scheduled_sampling: a Plain reads no words"):
        Plain().with_own_words({}, 0.5, [0, 1])
