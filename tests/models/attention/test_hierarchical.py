import numpy as np
import pytest
import tensorflow as tf

from models.attention.hierarchical import AttentionPooling
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference.attention import pool
from tests.models.reference.gradients import assert_same_loss_and_gradients

# Words of the sentences of three documents, the last one empty.
LENGTHS = np.array([[3, 1, 4], [2, 0, 0], [0, 0, 0]])
WORDS, FEATURES, UNITS = 4, 3, 5


def make(units=UNITS, **options):
    layer = AttentionPooling(FEATURES, units, **options)
    layer.build()
    return randomize(layer)


def documents():
    """Words [B, S, W, M] and which of them are real, [B, S, W]."""
    return random_tensor(3, 3, WORDS, FEATURES, seed=1), tf.sequence_mask(LENGTHS, WORDS)


def expected(memory, lengths, weights):
    vectors = np.zeros((*lengths.shape, memory.shape[-1]))
    attention = np.zeros(memory.shape[:-1])
    for index in np.ndindex(lengths.shape):
        vectors[index], attention[index] = pool(memory[index], lengths[index], weights)
    return vectors, attention


@pytest.mark.usefixtures("float64")
def test_words_of_sentences_of_documents_are_pooled_by_the_equation():
    layer = make()
    memory, mask = documents()
    pooled = layer(memory, mask)
    assert pooled.vectors.shape == (3, 3, FEATURES) and pooled.weights.shape == (3, 3, WORDS)
    close(tuple(pooled), expected(memory.numpy(), LENGTHS, layer.get_weights()))


@pytest.mark.usefixtures("float64")
def test_sentences_upon_words():
    """One level reads what the other gives; an empty document has a vector of zeros."""
    below, above = make(), make()
    memory, mask = documents()
    sentences = below(memory, mask).vectors  # [B, S, M]
    document = above(sentences, tf.reduce_any(mask, -1))
    vectors, _ = expected(memory.numpy(), LENGTHS, below.get_weights())
    wanted = expected(vectors, (LENGTHS > 0).sum(-1), above.get_weights())
    close(tuple(document), wanted)
    assert not document.vectors[2].numpy().any() and not document.weights[2].numpy().any()


@pytest.mark.usefixtures("float64")
def test_gradients_are_those_of_the_equation():
    layer = make()
    memory, mask = documents()
    sides = random_tensor(3, 3, FEATURES, seed=2).numpy()
    tops = random_tensor(3, 3, WORDS, seed=3).numpy()

    def loss():
        vectors, weights = layer(memory, mask)
        return tf.reduce_sum(vectors * sides) + tf.reduce_sum(tf.cast(weights, tf.float64) * tops)

    def reference(arrays):
        vectors, weights = expected(arrays["memory"], LENGTHS, arrays["weights"])
        return (vectors * sides).sum() + (weights * tops).sum()

    variables = {"memory": memory, "weights": layer.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference)


def test_what_stands_at_pads_changes_nothing():
    layer = make()
    memory, mask = documents()
    garbage = tf.where(mask[..., tf.newaxis], memory, 1e4)
    close(tuple(layer(garbage, mask)), tuple(layer(memory, mask)), 1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_with_the_softmax_in_float32(policy, request):
    request.getfixturevalue(policy)
    layer = make()
    memory, mask = documents()
    vectors, weights = layer(memory * 1e3, mask)
    assert vectors.dtype == layer.compute_dtype and weights.dtype == tf.float32
    assert np.isfinite(tf.cast(vectors, tf.float32)).all()
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), LENGTHS > 0, rtol=1e-6)


def test_any_sizes_in_one_graph():
    layer = make()
    specs = [tf.TensorSpec([None, None, None, FEATURES]), tf.TensorSpec([None] * 3, tf.bool)]
    for compiled in (False, True):
        run = tf.function(layer, input_signature=specs, jit_compile=compiled)
        memory, mask = documents()
        close(tuple(run(memory, mask)), tuple(layer(memory, mask)))
        assert run(memory[:0], mask[:0]).vectors.shape == (0, 3, FEATURES)


def test_a_layer_made_from_its_configuration_is_equal():
    layer = make(None, initializer_range=0.3)
    again = AttentionPooling.from_config(layer.get_config())
    again.build()
    again.set_weights(layer.get_weights())
    assert again.get_config() == layer.get_config() and again.units == FEATURES
    close(tuple(again(*documents())), tuple(layer(*documents())), 0.0)
