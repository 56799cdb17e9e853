import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.attention import hard
from models.attention.contract import Draw
from models.attention.hard import HardAttention, draw_positions
from models.translation import TranslationModel
from tests.models.examples import (
    MODELS,
    close,
    make_model,
    mask_of,
    random_tensor,
    randomize,
    sentences,
    shifted,
)
from tests.models.reference.attention import general, softmax
from tests.models.reference.gradients import as_arrays, numeric_gradients

POSITIONS, STEPS = 3, 2
OPTIONS = {"kind": "hard", "score": "general", "entropy_weight": 0.0}

every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def choose(monkeypatch):
    """A function that makes the next draws be given ones."""

    def choose(chosen):
        left = iter(chosen)

        def draw(scores, seed):
            queries = [next(left) for _ in range(scores.shape[1])]
            return tf.constant([queries] * scores.shape[0], tf.int32)

        monkeypatch.setattr(hard, "draw_positions", draw)

    return choose


def make(**options):
    attention = HardAttention(4, 3, **{"entropy_weight": 0.0, **options})
    attention.build()
    randomize(attention)
    attention.baseline.assign(-0.7)
    return attention


def losses_of(context, sides, coupling):
    """Losses of two words, the second of which depends on both contexts."""
    first = (context[0] * sides[0]).sum()
    second = (context[1] * sides[1]).sum() ** 2 + coupling * (context[0] * context[1]).sum()
    return first, second


def expectation(arrays, sides, coupling):
    """The exact mean of the sum of losses over all draws, in NumPy."""
    query, memory = arrays["query"][0], arrays["memory"][0]
    chances = softmax(general(query, memory, [arrays["kernel"]]))
    total = 0.0
    for chosen in itertools.product(range(POSITIONS), repeat=STEPS):
        losses = losses_of(memory[list(chosen)], sides, coupling)
        total += chances[0, chosen[0]] * chances[1, chosen[1]] * sum(losses)
    return total


def mean_estimate(attention, given, sides, coupling, later, choose):
    """The gradient that training would follow, averaged exactly over all draws."""
    query, memory = given["query"], given["memory"]
    tensors = [query, memory, given["kernel"].value]
    total = [np.zeros(each.shape) for each in tensors]
    for chosen in itertools.product(range(POSITIONS), repeat=STEPS):
        choose(chosen)
        attention.baseline.assign(-0.7)
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            prepared = attention.prepare(memory, mask_of([POSITIONS], POSITIONS))
            context, _, draw = attention.attend(query, prepared, training=True)
            first = tf.reduce_sum(context[0, 0] * sides[0])
            second = tf.reduce_sum(context[0, 1] * sides[1]) ** 2
            second += coupling * tf.reduce_sum(context[0, 0] * context[0, 1])
            losses = tf.cast([[first, second]], tf.float32)
            extra = attention.extra_loss(draw, losses, tf.ones([1, STEPS]), later)
            loss = tf.reduce_sum(losses) + extra
        chance = np.exp(tf.reduce_sum(draw.log_probability))
        gradients = tape.gradient(loss, tensors)
        total = [sum_ + chance * each.numpy() for sum_, each in zip(total, gradients, strict=True)]
    return total


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("coupling", "later"), [(0.0, False), (0.0, True), (1.5, True)])
def test_the_estimate_is_unbiased(coupling, later, choose):
    """Its mean over all draws is the gradient of the expected loss, whatever the baseline."""
    found, wanted = _estimate_and_truth(coupling, later, choose)
    for each, truth in zip(found, wanted, strict=True):
        np.testing.assert_allclose(each, truth, atol=1e-5)


@pytest.mark.usefixtures("float64")
def test_a_draw_that_is_not_told_of_later_words_misses_its_part_in_them(choose):
    found, wanted = _estimate_and_truth(1.5, False, choose)
    assert np.abs(found[0] - wanted[0]).max() > 1e-2


def _estimate_and_truth(coupling, later, choose):
    attention = make()
    given = {
        "query": random_tensor(1, STEPS, 4, seed=1),
        "memory": random_tensor(1, POSITIONS, 3, seed=2),
        "kernel": attention.score.kernel,
    }
    sides = random_tensor(STEPS, 3, seed=3).numpy()
    found = mean_estimate(attention, given, sides, coupling, later, choose)
    function = lambda arrays: expectation(arrays, sides, coupling)  # noqa: E731
    return found, list(numeric_gradients(function, as_arrays(given)).values())


@pytest.mark.usefixtures("float64")
@every_model
def test_in_a_model_the_mean_of_its_gradients_is_that_of_the_expected_loss(name, choose):
    """Of every weight, through decoders that attend before or after, fed back or not."""
    model = make_model(name, scale=1.5, attention=OPTIONS)
    labels = sentences([STEPS - 1], seed=5)
    inputs = {"source": sentences([1]), "target": shifted(labels)}
    variables = [variable.value for variable in model.trainable_variables]
    estimate, expected = [0.0] * len(variables), 0.0
    with tf.GradientTape() as outer:
        for chosen in itertools.product(range(2), repeat=STEPS):
            choose(chosen)
            model.decoder.attention.baseline.assign(-1.0)
            with tf.GradientTape() as tape:
                loss = model.loss_sums(inputs, labels, tf.constant([1, 2])).loss
            gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
            choose(chosen)
            reading = model._decode(inputs, training=True)
            logits = model.projection(reading.features)
            words = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            chance = tf.exp(tf.reduce_sum(reading.draw.log_probability))
            expected += chance * tf.reduce_sum(words)
            for index, gradient in enumerate(gradients):
                estimate[index] += chance.numpy() * tf.convert_to_tensor(gradient).numpy()
    exact = outer.gradient(expected, variables, unconnected_gradients="zero")
    for each, truth, variable in zip(estimate, exact, model.trainable_variables, strict=True):
        truth = tf.convert_to_tensor(truth).numpy()
        np.testing.assert_allclose(each, truth, rtol=1e-5, atol=1e-5, err_msg=variable.path)
    kernel = [v.path.endswith("score/kernel") for v in model.trainable_variables].index(True)
    assert np.abs(tf.convert_to_tensor(exact[kernel])).max() > 1e-3


def test_the_entropy_is_that_of_what_is_drawn_from_and_is_made_larger():
    attention = make(entropy_weight=0.5, reinforce_weight=0.0)
    query, memory = random_tensor(1, STEPS, 4, seed=1), random_tensor(1, 5, 3, seed=2)
    prepared = attention.prepare(memory, mask_of([POSITIONS], 5))
    draw = attention.attend(query, prepared, training=True).draw
    kernel = attention.score.kernel.numpy()
    chances = softmax(general(query[0].numpy(), memory[0, :POSITIONS].numpy(), [kernel]))
    wanted = -(chances * np.log(chances)).sum(-1)
    close(draw.entropy[0], wanted)
    real = tf.constant([[1.0, 0.0]])
    extra = attention.extra_loss(draw, tf.ones([1, STEPS]), real)
    close(extra, np.array(-0.5 * wanted[0]))


def test_the_log_probability_is_that_of_the_position_drawn():
    attention = make()
    query, memory = random_tensor(1, 4, 4, seed=1), random_tensor(1, POSITIONS, 3, seed=2)
    prepared = attention.prepare(memory, mask_of([POSITIONS], POSITIONS))
    _, weights, draw = attention.attend(query, prepared, training=True)
    kernel = attention.score.kernel.numpy()
    chances = softmax(general(query[0].numpy(), memory[0].numpy(), [kernel]))
    close(tf.exp(draw.log_probability[0]), (chances * weights[0].numpy()).sum(-1))


def test_the_baseline_is_a_moving_average_over_real_words():
    attention = make(baseline_decay=0.8)
    draw = Draw(tf.zeros([2, 2]), tf.zeros([2, 2]))
    losses = tf.constant([[1.0, 2.0], [6.0, 99.0]])
    attention.extra_loss(draw, losses, tf.constant([[1.0, 1.0], [1.0, 0.0]]))
    close(attention.baseline.value, np.array(0.8 * -0.7 + 0.2 * -3.0), 1e-6)
    before = attention.baseline.numpy()
    attention.extra_loss(draw, losses, tf.zeros([2, 2]))
    close(attention.baseline.value, before, 0.0)


def test_rewards_are_what_follows_over_what_was_expected():
    attention = make(reinforce_weight=2.0)
    attention.baseline.assign(-2.0)
    logs = tf.Variable([[0.0, 0.0, 0.0]])
    losses, real = tf.constant([[1.0, 4.0, 50.0]]), tf.constant([[1.0, 1.0, 0.0]])
    for later, gains in ((True, [-1.0, -2.0, 0.0]), (False, [1.0, -2.0, 0.0])):
        attention.baseline.assign(-2.0)
        with tf.GradientTape() as tape:
            extra = attention.extra_loss(Draw(logs, tf.zeros([1, 3])), losses, real, later)
        close(tape.gradient(extra, logs), -2.0 * np.array([gains]), 1e-6)


def test_a_row_counts_as_much_as_its_words_and_a_draw_before_them_too():
    """Half rows count half, once; a draw whose own word is none answers for those after it."""
    attention = make()
    logs = tf.Variable([[0.0, 0.0, 0.0]])
    attention.baseline.assign(-2.0)
    with tf.GradientTape() as tape:
        draw = Draw(logs, tf.zeros([1, 3]))
        extra = attention.extra_loss(
            draw, tf.constant([[0.0, 3.0, 5.0]]), tf.constant([[0.0, 0.5, 0.0]])
        )
    close(tape.gradient(extra, logs), np.array([[0.5, 0.5, 0.0]]), 1e-6)
    close(attention.baseline.value, np.array(0.9 * -2.0 + 0.1 * -3.0), 1e-6)


def test_draws_come_as_often_as_the_softmax_says():
    scores = np.array([0.3, -1.0, 1.2, -np.inf], np.float32)
    many = tf.repeat(tf.constant(scores)[tf.newaxis, tf.newaxis], 20_000, 1)
    drawn = draw_positions(tf.maximum(many, -1e38), tf.constant([3, 4]))[0].numpy()
    found = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(found, softmax(scores), atol=0.015)
    assert found[3] == 0.0


def test_likeliest_unless_training_and_draws_that_differ_when_training():
    attention = make()
    query, memory = random_tensor(3, 8, 4, seed=1), random_tensor(3, 5, 3, seed=2)
    given = (query, memory, mask_of([3, 5, 1], 5))
    kernel = attention.score.kernel.numpy()
    still = attention(*given)[1]
    for row, length in enumerate([3, 5, 1]):
        scores = general(query[row].numpy(), memory[row, :length].numpy(), [kernel])
        np.testing.assert_array_equal(still[row].numpy().argmax(-1), scores.argmax(-1))
    state = attention.seed_generator.state.numpy()
    first, second = (attention(*given, training=True)[1].numpy() for _ in range(2))
    assert (first != second).any()
    attention.seed_generator.state.assign(state)
    close(attention(*given, training=True)[1], first, 0.0)


def batch():
    labels = sentences([3, 1, 2], seed=5)
    return {"source": sentences([2, 4, 1]), "target": shifted(labels)}, labels


@every_model
def test_the_loss_that_is_told_is_that_of_the_words(name):
    model = make_model(name, attention={**OPTIONS, "entropy_weight": 1.0})
    inputs, labels = batch()
    state = model.decoder.attention.seed_generator.state
    before = state.numpy()
    sums = model.loss_sums(inputs, labels, tf.constant([1, 2]))
    state.assign(before)
    logits = model.projection(model.features(inputs, training=True))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    wanted = tf.reduce_sum(tf.where(labels != 0, losses, 0.0))
    np.testing.assert_allclose(sums.loss, wanted, rtol=1e-6)


@every_model
def test_validation_takes_the_likeliest_and_moves_nothing(name):
    model = make_model(name, attention=OPTIONS)
    inputs, labels = batch()
    before = [variable.numpy() for variable in model.variables]
    sums = model.loss_sums(inputs, labels, tf.constant([1, 2]), training=False)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(inputs))
    wanted = tf.reduce_sum(tf.where(labels != 0, losses, 0.0))
    np.testing.assert_allclose(sums.loss, wanted, rtol=1e-6)
    close([variable.numpy() for variable in model.variables], before, 0.0)


@every_model
def test_dropping_pads_before_the_projection_changes_no_gradient(name):
    model = make_model(name, attention=OPTIONS)
    variables = [variable.value for variable in model.trainable_variables]
    kept = [variable.numpy() for variable in model.variables]
    outcomes = []
    for model.drop_pads in (True, False):
        for variable, value in zip(model.variables, kept, strict=True):
            variable.assign(value)
        with tf.GradientTape() as tape:
            loss = model.loss_sums(*batch(), tf.constant([1, 2])).loss
        found = tape.gradient(loss, variables, unconnected_gradients="zero")
        outcomes.append([loss, *[tf.convert_to_tensor(each) for each in found]])
    close(*outcomes)


def test_xla_compiles_a_training_step_that_draws_in_a_loop():
    model = make_model("bahdanau", attention=OPTIONS)
    model.drop_pads = False
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function(jit_compile=True)
    def gradients(inputs, labels):
        with tf.GradientTape() as tape:
            loss = model.loss_sums(inputs, labels, tf.constant([1, 2])).loss
        found = tape.gradient(loss, variables, unconnected_gradients="zero")
        return loss, [tf.convert_to_tensor(each) for each in found]

    states, baseline = [], model.decoder.attention.baseline.numpy()
    for _ in range(2):
        loss, found = gradients(*batch())
        assert np.isfinite(loss) and all(np.isfinite(each).all() for each in found)
        states.append(model.decoder.attention.seed_generator.state.numpy().tolist())
    assert states[0] != states[1] and model.decoder.attention.baseline.numpy() < baseline


def small_model(eagerly=True):
    model = TranslationModel(
        8,
        8,
        embedding_size=8,
        dropout=0.2,
        encoder={"units": 8},
        decoder={"units": 16, "input_feeding": True},
        attention={"kind": "hard", "score": "general"},
    )
    model.build()
    model.compile(keras.optimizers.Adam(0.02), run_eagerly=eagerly)
    model.optimizer.build(model.trainable_variables)
    return model


def learn(model, steps):
    """Losses of some steps on one batch."""
    labels = sentences([2, 3, 1, 2], seed=1)
    inputs = {"source": labels, "target": shifted(labels)}
    return model.fit(inputs, labels, 4, epochs=steps, verbose=0, shuffle=False).history["loss"]


def test_a_run_that_goes_on_from_its_variables_draws_what_it_would_have_drawn():
    model, again = small_model(), small_model()
    learn(model, 2)
    for old, new in zip(model.variables, again.variables, strict=True):
        new.assign(old)
    for old, new in zip(model.optimizer.variables, again.optimizer.variables, strict=True):
        new.assign(old)
    assert learn(model, 3) == learn(again, 3)


@pytest.mark.usefixtures("mixed_float16")
def test_fit_learns_in_half_precision():
    losses = learn(small_model(eagerly=False), 30)
    assert np.isfinite(losses).all() and np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
