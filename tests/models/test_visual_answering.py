"""The models that answer about pictures against their equations, and what must not change them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.search.hypotheses import SearchOptions
from models.visual_answering import VisualAnsweringModel
from models.visual_generation import VisualGenerationModel
from tests.models.examples import close, randomize
from tests.models.reference.gradients import as_arrays, assert_same_loss_and_gradients
from tests.models.reference.losses import cross_entropy, log_softmax
from tests.models.reference.pictures import small_network
from tests.models.reference.visual_answering import parts_of, visual_logits

VOCABULARY, LABELS, FEATURES = 9, 7, 3
SEED = tf.constant([1, 2], tf.int32)
QUESTIONS = [[6, 7, 3], [3], [8, 3]]
GRIDS = np.random.default_rng(3).normal(size=(3, 2, 3, FEATURES))

MODELS = {
    "one-look": {
        "cell": "gru",
        "hops": 1,
        "encoder": {"units": 2, "layers": 1, "bidirectional": True, "residual": False},
        "attention": {"score": "general", "units": None},
    },
    "three-looks": {
        "cell": "lstm",
        "hops": 3,
        "encoder": {"units": 3, "layers": 2, "bidirectional": False, "residual": True},
        "attention": {"score": "additive", "units": 4},
    },
}
every_model = pytest.mark.parametrize("name", MODELS)
SMALL = {"name": "small", "weights": None}


def make_model(name="one-look", scale=0.5, **changes):
    given = {**MODELS[name], "embedding_size": 2, **changes}
    given["encoder"] = {"feature_size": FEATURES, **given["encoder"]}
    model = VisualAnsweringModel(VOCABULARY, LABELS, **given)
    model.build()
    return randomize(model, scale=scale)


def questions(extra=0):
    return tf.pad(tf.ragged.constant(QUESTIONS, tf.int32).to_tensor(), [[0, 0], [0, extra]])


def inputs(extra=0):
    dtype = keras.config.dtype_policy().compute_dtype
    return {"question": questions(extra), "features": tf.constant(GRIDS, dtype)}


@pytest.mark.usefixtures("float64")
@every_model
def test_logits_and_maps_are_those_of_the_equations(name):
    model = make_model(name)
    logits, maps = visual_logits(model.options, GRIDS, QUESTIONS, as_arrays(parts_of(model)))
    close(model(inputs())[:, 0], logits)
    close(model.answer(inputs()).weights, maps)


@pytest.mark.usefixtures("float64")
@every_model
def test_gradients_are_those_of_the_equations(name):
    model = make_model(name)
    labels = np.array([4, 6, 5])

    def loss_of(arrays):
        logits, _ = visual_logits(model.options, GRIDS, QUESTIONS, arrays)
        return cross_entropy(logits, labels).sum()

    variables = parts_of(model)
    assert sum(map(len, variables.values())) == len(model.trainable_variables)
    loss = lambda: model.loss_sums(inputs(), tf.constant(labels[:, None], tf.int32), SEED).loss  # noqa: E731
    assert_same_loss_and_gradients(loss, variables, loss_of)


@every_model
def test_pads_and_other_rows_change_nothing(name):
    model = make_model(name)
    found, more = model.answer(inputs()), model.answer(inputs(extra=3))
    close(more.probabilities, found.probabilities, 1e-6)
    for row in range(3):
        alone = model.answer({key: each[row : row + 1] for key, each in inputs().items()})
        close(alone.probabilities[0], found.probabilities[row], 1e-6)
        close(alone.weights[0], found.weights[row], 1e-6)


def test_an_answer_is_the_likeliest_label_that_is_no_mark():
    model = make_model()
    model.projection.bias.assign([50.0, 60.0, 70.0, 80.0, 0.0, 1.0, 0.5])
    found = model.answer(inputs())
    logits = model(inputs()).numpy()[:, 0, 4:]
    close(found.labels, logits.argmax(-1) + 4)
    close(found.probabilities, np.exp(log_softmax(logits)).max(-1))


def learning_model(kind=VisualAnsweringModel, **changes):
    encoder = {"units": 2, "backbone": SMALL}
    given = {"cell": "gru", "embedding_size": 2, "encoder": encoder, **changes}
    model = kind(VOCABULARY, LABELS, **given)
    model.build()
    return randomize(model, scale=0.2)


def seen(repeats=(0, 0, 1)):
    pixels = np.random.default_rng(1).integers(0, 255, (2, 16, 16, 3), np.uint8)
    return {"question": questions(), "pixels": tf.constant(pixels[list(repeats)])}


def test_a_network_that_learns_is_the_small_one_and_gets_a_gradient():
    model = learning_model()
    weights = model.encoder.backbone.get_weights()
    grid = small_network(seen()["pixels"].numpy().astype(np.float64), weights)
    kernel, bias = (each.numpy() for each in model.encoder.cells.trainable_variables)
    close(model.encoder.see(seen()).grid, np.tanh(grid @ kernel + bias), 1e-4)
    variables = [each.value for each in model.encoder.backbone.trainable_variables]
    with tf.GradientTape() as tape:
        loss = model.loss_sums(seen(), tf.constant([[4], [6], [5]]), SEED).loss
    for gradient in tape.gradient(loss, variables):
        assert np.abs(gradient).max() > 0
    assert model.pretrained == []


def test_a_picture_that_is_seen_once_counts_for_all_questions_about_it():
    model = learning_model()
    variables = [each.value for each in model.trainable_variables]

    def losses_and_gradients(rows):
        given = {name: tf.gather(each, rows) for name, each in seen().items()}
        with tf.GradientTape() as tape:
            labels = tf.gather(tf.constant([[4], [6], [5]]), rows)
            loss = model.loss_sums(given, labels, SEED).loss
        return loss, [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    together, gradients = losses_and_gradients([0, 1, 2])
    apart = [losses_and_gradients([row]) for row in range(3)]
    close(together, sum(loss for loss, _ in apart))
    for number, gradient in enumerate(gradients):
        close(gradient, sum(each[number] for _, each in apart), 1e-4)


@every_model
def test_configuration_makes_an_equal_model(name):
    model = make_model(name, dropout=0.1)
    again = VisualAnsweringModel.from_config(model.get_config())
    again.build()
    assert again.get_config() == model.get_config()
    again.set_weights(model.get_weights())
    close(again(inputs()), model(inputs()), 1e-6)


@pytest.mark.parametrize("kind", [VisualAnsweringModel, VisualGenerationModel])
def test_so_does_that_of_models_with_a_network(kind):
    model = learning_model(kind)
    again = kind.from_config(model.get_config())
    again.build()
    again.set_weights(model.get_weights())
    given = {**seen(), "target": tf.constant([[2, 5], [2, 6], [2, 0]])}
    close(again(given), model(given), 1e-6)


@pytest.mark.usefixtures("mixed_bfloat16")
def test_half_precision_stays_near():
    half = learning_model()
    keras.config.set_dtype_policy("float32")
    whole = learning_model()
    assert half.features(seen()).dtype == tf.bfloat16
    close(half.answer(seen()).probabilities, whole.answer(seen()).probabilities, 0.05)


def test_hard_attention_learns_by_what_it_draws():
    model = make_model(attention={"kind": "hard", "score": "general"})
    with tf.GradientTape() as tape:
        loss = model.loss_sums(inputs(), tf.constant([[4], [6], [5]]), SEED).loss
    gradient = tape.gradient(loss, model.reads.attention.trainable_variables[0].value)
    assert np.abs(gradient).max() > 0
    assert set(model.answer(inputs()).weights.numpy().ravel()) == {0.0, 1.0}


def test_attention_by_the_place_of_a_word_is_refused():
    with pytest.raises(UserError, match="'local_monotonic' goes by a word's place"):
        make_model(attention={"kind": "local_monotonic"})


def test_a_generator_attends_to_cells_and_then_to_the_words_of_the_question():
    model = learning_model(VisualGenerationModel, decoder={"units": 3})
    encoded = model.encoder(seen())
    grid, words = model.encoder.see(seen())
    cells = tf.reshape(grid, [3, 4, -1])
    close(encoded.memory, tf.concat([cells, words.memory], 1))
    assert encoded.mask.numpy().tolist() == [
        [True] * 7, [True] * 5 + [False] * 2, [True] * 6 + [False]
    ]  # fmt: skip
    answers = tf.constant([[5, 6, 3], [6, 3, 0], [3, 0, 0]])
    target = tf.constant([[2, 5, 6], [2, 6, 0], [2, 0, 0]])
    maps = model.look(seen(), answers)
    weights = model.force(seen(), target, answers).weights
    close(maps[0], tf.reshape(weights[0, :, :4], [3, 2, 2]))
    assert not maps[1:, 2].numpy().any() and maps[1:, 0].numpy().all()


def test_a_written_answer_has_the_score_of_its_words():
    model = learning_model(VisualGenerationModel, decoder={"units": 3})
    options = SearchOptions(kind="greedy", length_penalty=0.0, max_length_extra=4)
    found = model.translate(seen(), options)
    ids = found.ids[:, 0, :]  # [B, T]
    assert ids.shape[1] == 5  # no longer for a larger picture
    assert found.lengths.numpy().max() > 1
    target = tf.concat([tf.fill([3, 1], 2), ids[:, :-1]], 1)
    forced = model.force(seen(), target, ids)
    close(found.scores[:, 0], tf.reduce_sum(forced.log_probabilities, 1))
