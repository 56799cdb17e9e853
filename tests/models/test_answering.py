"""The answering model against its equations, and what must not change its answers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.answering import AnsweringModel
from models.errors import UserError
from tests.models.examples import close, randomize
from tests.models.reference.answering import answering_logits, variables_by_part
from tests.models.reference.gradients import as_arrays, assert_same_loss_and_gradients
from tests.models.reference.losses import cross_entropy, log_softmax

VOCABULARY, LABELS, SENTENCE = 10, 7, 5
SEED = tf.constant([1, 2], tf.int32)

# Stories of two sentences, of one with an empty one beside it, and of none.
STORIES = [[7, 8, SENTENCE, 9, 6, 7, 3], [SENTENCE, 8, 9, 3], [3]]
QUESTIONS = [[6, 7, 3], [3], [9, 3]]

MODELS = {
    "word": {
        "level": "word",
        "hops": 1,
        "stack": {"cell": "gru", "units": 2, "layers": 1, "bidirectional": True},
        "attention": {"score": "general", "units": None},
    },
    "word-deep": {
        "level": "word",
        "hops": 2,
        "stack": {"cell": "lstm", "units": 3, "layers": 2, "bidirectional": False},
        "attention": {"score": "additive", "units": 4},
    },
    "sentence": {
        "level": "sentence",
        "hops": 3,
        "stack": {"cell": "gru", "units": 2, "layers": 1, "bidirectional": True},
        "attention": {"score": "dot", "units": None},
    },
    "sentence-one-way": {
        "level": "sentence",
        "hops": 2,
        "stack": {"cell": "lstm", "units": 2, "layers": 1, "bidirectional": False},
        "attention": {"score": "general", "units": None},
    },
}
every_model = pytest.mark.parametrize("name", MODELS)


def make_model(name="sentence", scale=0.5, **changes):
    options = {**MODELS[name], "embedding_size": 3, **changes}
    options["stack"] = {"residual": False, **options["stack"]}
    model = AnsweringModel(VOCABULARY, LABELS, SENTENCE, **options)
    model.build()
    return randomize(model, scale=scale)


def padded(rows, extra=0):
    return tf.pad(tf.ragged.constant(rows, tf.int32).to_tensor(), [[0, 0], [0, extra]])


def inputs(extra=0):
    return {"story": padded(STORIES, extra), "question": padded(QUESTIONS, extra)}


def reference(model, arrays):
    return answering_logits(model.options, STORIES, QUESTIONS, arrays)


@pytest.mark.usefixtures("float64")
@every_model
def test_logits_and_reads_are_those_of_the_equations(name):
    model = make_model(name)
    logits, weights = reference(model, as_arrays(variables_by_part(model)))
    close(model(inputs())[:, 0], logits)
    found = model.answer(**inputs()).weights.numpy()
    assert found.shape[1] == model.reads.hops
    for row, wanted in enumerate(weights):
        close(found[row, :, : wanted.shape[1]], wanted)
        assert not found[row, :, wanted.shape[1] :].any()


@pytest.mark.usefixtures("float64")
@every_model
def test_gradients_are_those_of_the_equations(name):
    model = make_model(name)
    labels = np.array([4, 6, 5])

    def loss_of(arrays):
        return cross_entropy(reference(model, arrays)[0], labels).sum()

    variables = variables_by_part(model)
    assert sum(map(len, variables.values())) == len(model.trainable_variables)
    loss = lambda: model.loss_sums(inputs(), tf.constant(labels[:, None], tf.int32), SEED).loss  # noqa: E731
    assert_same_loss_and_gradients(loss, variables, loss_of)


@every_model
def test_padding_and_other_rows_change_nothing(name):
    model = make_model(name)
    found, more = model.answer(**inputs()), model.answer(**inputs(extra=3))
    close(more.probabilities, found.probabilities, 1e-6)
    close(more.weights[:, :, : found.weights.shape[2]], found.weights, 1e-6)
    for row in range(len(STORIES)):
        alone = model.answer(padded([STORIES[row]]), padded([QUESTIONS[row]]))
        close(alone.probabilities[0], found.probabilities[row], 1e-6)
        close(alone.weights[0], found.weights[row][:, : alone.weights.shape[2]], 1e-6)


def test_an_answer_is_the_likeliest_label_that_is_no_mark():
    model = make_model("word")
    model.projection.bias.assign([50.0, 60.0, 70.0, 80.0, 0.0, 1.0, 0.5])
    found = model.answer(**inputs())
    logits = model(inputs()).numpy()[:, 0, 4:]
    close(found.labels, logits.argmax(-1) + 4)
    close(found.probabilities, np.exp(log_softmax(logits)).max(-1))


def test_of_an_empty_story_nothing_is_read():
    model = make_model("sentence")
    found = model.answer(**inputs())
    assert not found.weights.numpy()[2].any()
    close(tf.reduce_sum(found.weights[:2], -1), np.ones([2, 3]), 1e-6)
    assert np.isfinite(found.probabilities).all()


@every_model
def test_no_rows_give_no_answers(name):
    model = make_model(name)
    none = tf.zeros([0, 0], tf.int32)
    found = tf.function(model.answer)(none, none)
    assert found.labels.shape == (0,)
    assert found.weights.shape[:2] == (0, model.reads.hops)


@every_model
def test_configuration_makes_an_equal_model(name):
    model = make_model(name, dropout=0.1, self_attention={"layers": 1, "heads": 1})
    again = AnsweringModel.from_config(model.get_config())
    again.build()
    assert again.get_config() == model.get_config()
    again.set_weights(model.get_weights())
    close(again(inputs()), model(inputs()), 1e-6)


@pytest.mark.usefixtures("mixed_bfloat16")
@every_model
def test_half_precision_stays_near(name):
    half = make_model(name)
    keras.config.set_dtype_policy("float32")
    whole = make_model(name)
    found = half.answer(**inputs())
    assert half.features(inputs()).dtype == tf.bfloat16
    assert found.weights.dtype == tf.float32
    close(found.probabilities, whole.answer(**inputs()).probabilities, 0.05)


def test_words_are_read_by_a_compiled_step():
    model = make_model("word-deep")
    model.drop_pads = False
    labels = tf.constant([[4], [6], [5]])

    def loss(inputs, labels):
        return model.loss_sums(inputs, labels, SEED).loss

    compiled = tf.function(loss, jit_compile=True)
    close(compiled(inputs(), labels), loss(inputs(), labels))


def test_hard_attention_learns_by_what_it_draws():
    model = make_model("sentence", attention={"kind": "hard", "score": "general"})
    with tf.GradientTape() as tape:
        loss = model.loss_sums(inputs(), tf.constant([[4], [6], [5]]), SEED).loss
    gradient = tape.gradient(loss, model.reads.attention.trainable_variables[0].value)
    assert np.abs(gradient).max() > 0
    found = model.answer(**inputs()).weights.numpy()
    assert set(found.ravel()) == {0.0, 1.0}


def test_attention_by_the_place_of_a_word_is_refused():
    with pytest.raises(UserError, match="'local_monotonic' goes by a word's place"):
        make_model("word", attention={"kind": "local_monotonic"})


@pytest.mark.parametrize("attention", [{"kind": "local_predictive"}, {"score": "multi_head"}])
def test_other_kinds_of_attention_read_too(attention):
    model = make_model("sentence", attention={"units": 4, "heads": 2, **attention})
    found, more = model.answer(**inputs()), model.answer(**inputs(extra=2))
    close(more.probabilities, found.probabilities, 1e-6)
    assert not found.weights.numpy()[2].any()
