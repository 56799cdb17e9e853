import numpy as np
import pytest
import tensorflow as tf

from models.classification import (
    HIERARCHICAL,
    ClassificationModel,
    classification_source,
)
from models.errors import UserError
from models.keras_recurrent import refuse_cudnn
from models.pooling import POOLINGS
from tests.models.examples import close, random_ids, randomize
from tests.models.reference.recurrent import run_stack
from tests.models.reference.summaries import hierarchical, summarize

VOCABULARY, LABELS, SEPARATOR = 9, 7, 4
LENGTHS = [4, 2, 1]
FLAT = tuple(POOLINGS)
EVERY = (*FLAT, HIERARCHICAL)
every_pooling = pytest.mark.parametrize("pooling", EVERY)
SEED = tf.constant([1, 2], tf.int32)
DOCUMENTS = [[[5, 6, 7], [8]], [[5]], [[6, 6], [7, 8, 5, 6], [5]]]


def make(pooling, **options):
    model = ClassificationModel(
        VOCABULARY,
        LABELS,
        pooling,
        **{
            "cell": "gru",
            "embedding_size": 3,
            "encoder": {"units": 2},
            "attention_units": 3,
            **options,
        },
    )
    model.build()
    return randomize(model)


def source(pooling, extra=0):
    if pooling == HIERARCHICAL:
        ids = tf.ragged.constant(DOCUMENTS, tf.int32).to_tensor()
        return tf.pad(ids, [[0, 0], [0, extra], [0, extra]])
    return tf.pad(random_ids(LENGTHS, VOCABULARY), [[0, 0], [0, extra]])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("pooling", FLAT)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_flat_models_are_stack_and_pooling(pooling, bidirectional):
    model = make(pooling, encoder={"units": 2, "bidirectional": bidirectional})
    ids = source(pooling)
    embedded = model.encoder.embedding(ids).numpy()
    weights = model.encoder.stack.get_weights()
    states, forward, backward = run_stack("gru", embedded, LENGTHS, weights, bidirectional)
    last = np.concatenate([each[-1][0] for each in (forward, backward) if each], -1)
    found = model.sum_up(ids)
    for row, length in enumerate(LENGTHS):
        own = model.pooling.get_weights()
        vector, attention = summarize(pooling, states[row], length, last[row], own)
        close(found.vectors[row], vector)
        if attention is not None:
            close(found.weights[row], attention)
    close(model.features({"source": ids})[:, 0], found.vectors)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("drop_pads", [True, False])
def test_the_hierarchical_model_is_the_composition_of_its_equations(drop_pads):
    model = make(HIERARCHICAL)
    model.drop_pads = drop_pads
    table = model.encoder.embedding.get_weights()[0]
    documents = [[table[words] for words in sentences] for sentences in DOCUMENTS]
    weights = {
        "words": model.encoder.stack.get_weights(),
        "word_pooling": model.pooling.get_weights(),
        "sentences": model.sentences.stack.get_weights(),
        "sentence_pooling": model.sentences.pooling.get_weights(),
    }
    found = model.sum_up(source(HIERARCHICAL, extra=1))
    for row, wanted in enumerate(hierarchical("gru", documents, weights)):
        vector, attentions, shares = wanted
        close(found.vectors[row], vector)
        close(found.sentence_weights[row, : len(shares)], shares)
        assert not found.sentence_weights[row, len(shares) :].numpy().any()
        for index, attention in enumerate(attentions):
            close(found.weights[row, index, : len(attention)], attention)
            assert not found.weights[row, index, len(attention) :].numpy().any()
        assert not found.weights[row, len(shares) :].numpy().any()


@every_pooling
def test_pads_change_nothing_and_rows_are_independent(pooling):
    model = make(pooling)
    plain = model.classify(source(pooling))
    padded = model.classify(source(pooling, extra=2))
    close(padded.probabilities, plain.probabilities)
    np.testing.assert_array_equal(padded.labels, plain.labels)
    for row in range(3):
        alone = model.classify(source(pooling)[row : row + 1])
        close(alone.probabilities, plain.probabilities[row : row + 1])


@every_pooling
def test_labels_are_no_marks_and_probabilities_sum_to_one(pooling):
    model = make(pooling)
    model.projection.bias.assign(np.float32([50, 50, 50, 50, 0, 1, 0]))
    found = model.classify(source(pooling))
    assert (found.labels.numpy() >= 4).all()
    assert not found.probabilities[:, :4].numpy().any()
    close(tf.reduce_sum(found.probabilities, 1), np.ones(3))


@every_pooling
def test_a_text_without_a_word_gets_the_label_that_the_bias_names(pooling):
    model = make(pooling)
    model.projection.bias.assign(np.float32([0, 0, 0, 0, 1, 0, 3]))
    shape = [2, 1, 1] if pooling == HIERARCHICAL else [2, 1]
    found = model.classify(tf.zeros(shape, tf.int32))
    np.testing.assert_array_equal(found.labels, [6, 6])
    assert np.isfinite(found.probabilities).all()
    # Beside one that has words.
    both = tf.concat([source(pooling), tf.zeros_like(source(pooling)[:1])], 0)
    close(model.classify(both).probabilities[3:], found.probabilities[:1])


@pytest.mark.parametrize(
    ("texts", "flat", "parted"),
    [
        ([[5, 6, 4, 7]], [[5, 6, 4, 7, 3]], [[[5, 6], [7, 0]]]),
        ([[], [4, 4, 5, 4]], [[3, 0, 0, 0, 0], [4, 4, 5, 4, 3]], [[[0]], [[5]]]),
        ([[]], [[3]], [[[0]]]),
    ],
)
def test_what_is_read_of_texts(texts, flat, parted):
    ids = tf.ragged.constant(texts, tf.int32, 1)
    assert classification_source(ids, "mean", SEPARATOR).numpy().tolist() == flat
    assert classification_source(ids, HIERARCHICAL, SEPARATOR).numpy().tolist() == parted


@pytest.mark.parametrize("pooling", ["attention", HIERARCHICAL])
def test_every_weight_is_learned_and_xla_compiles_the_gradient(pooling):
    model = make(pooling)
    model.drop_pads = False
    refuse_cudnn(model)
    ids, labels = source(pooling), tf.constant([[4], [5], [6]])
    variables = [each.value for each in model.trainable_variables]

    def gradients():
        with tf.GradientTape() as tape:
            loss = model.loss_sums({"source": ids}, labels, SEED, training=False).loss
        return [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    compiled = tf.function(gradients, jit_compile=True)()
    assert all(np.abs(each).max() > 0 for each in compiled)
    model.drop_pads = True
    close(compiled, gradients(), 1e-4)


@every_pooling
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(pooling, policy):
    exact, half = make(pooling), make(pooling, dtype=policy)
    half.set_weights(exact.get_weights())
    ids = source(pooling)
    close(half.classify(ids).probabilities, exact.classify(ids).probabilities, 0.05)


@every_pooling
def test_a_model_made_from_its_configuration_is_equal(pooling):
    model = make(pooling, dropout=0.1)
    again = ClassificationModel.from_config(model.get_config())
    again.build()
    again.set_weights(model.get_weights())
    close(again.classify(source(pooling)).probabilities, model.classify(source(pooling))[1], 1e-6)
    assert again.get_config() == model.get_config()


def test_choices_that_cannot_be():
    with pytest.raises(UserError, match="model.classification.pooling: got 'sum', expected one"):
        make("sum")
    with pytest.raises(UserError, match="'last' reads recurrent states.*set it to 0"):
        make("last", encoder={"units": 2, "self_attention": {"layers": 1, "heads": 2}})


def test_self_attention_under_the_hierarchical_pooling():
    options = {"units": 2, "self_attention": {"layers": 1, "heads": 2}}
    model = make(HIERARCHICAL, encoder=options)
    assert model.classify(source(HIERARCHICAL)).probabilities.shape == (3, LABELS)
