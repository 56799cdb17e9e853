import keras
import numpy as np
import pytest
import tensorflow as tf

from models.attention import ATTENTIONS, DotAttention, make_attention, masked_softmax
from models.errors import UserError
from tests.models.examples import close, mask_of, random_tensor, randomize
from tests.models.reference.attention import SCORES, attend
from tests.models.reference.gradients import assert_same_loss_and_gradients

LENGTHS = [3, 5, 1]
POSITIONS = 5


def make(score):
    """A built member with random weights, with two sizes unless it needs them equal."""
    memory_size = 4 if score == "dot" else 3
    attention = make_attention(score, 6, query_size=4, memory_size=memory_size)
    attention.build()
    return randomize(attention)


def inputs(attention, queries=2):
    query = random_tensor(len(LENGTHS), queries, attention.query_size, seed=1)
    memory = random_tensor(len(LENGTHS), POSITIONS, attention.memory_size, seed=2)
    return query, memory, mask_of(LENGTHS, POSITIONS)


def test_the_reference_covers_every_member():
    assert SCORES.keys() == ATTENTIONS.keys()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("score", ATTENTIONS)
def test_forward_is_the_equation(score):
    attention = make(score)
    query, memory, mask = inputs(attention)
    found = attention(query, memory, mask)
    close(found, attend(score, query.numpy(), memory.numpy(), LENGTHS, attention.get_weights()))


@pytest.mark.parametrize("score", ATTENTIONS)
@pytest.mark.parametrize("positions", [8, 24])
def test_one_query_a_row_over_a_longer_memory(score, positions):
    """The shape of a decoder's step, in which products can be batched in other ways."""
    attention = make(score)
    query = random_tensor(3, 1, attention.query_size, seed=1)
    memory = random_tensor(3, positions, attention.memory_size, seed=2)
    lengths = [positions, 2, 5]
    wanted = attend(score, query.numpy(), memory.numpy(), lengths, attention.get_weights())
    for _ in range(20):
        close(attention(query, memory, mask_of(lengths, positions)), wanted)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("score", ATTENTIONS)
def test_gradients_are_those_of_the_equation(score):
    attention = make(score)
    query, memory, mask = inputs(attention)
    sides = random_tensor(*query.shape[:2], attention.memory_size, seed=3).numpy()
    tops = random_tensor(*query.shape[:2], POSITIONS, seed=4).numpy()

    def loss():
        context, weights = attention(query, memory, mask)
        return tf.reduce_sum(context * sides) + tf.reduce_sum(tf.cast(weights, tf.float64) * tops)

    def reference(arrays):
        context, weights = attend(
            score, arrays["query"], arrays["memory"], LENGTHS, arrays["weights"]
        )
        return (context * sides).sum() + (weights * tops).sum()

    variables = {"query": query, "memory": memory, "weights": attention.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference)


@pytest.mark.parametrize("score", ATTENTIONS)
def test_weights_of_a_query_sum_to_one_and_are_zero_at_pads(score):
    attention = make(score)
    query, memory, mask = inputs(attention)
    weights = attention(query, memory, mask)[1].numpy()
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-6)
    assert (weights[~np.broadcast_to(mask[:, np.newaxis], weights.shape)] == 0.0).all()


@pytest.mark.parametrize("score", ATTENTIONS)
def test_what_stands_at_pads_and_how_many_there_are_changes_nothing(score):
    attention = make(score)
    query, memory, mask = inputs(attention)
    context, weights = attention(query, memory, mask)
    garbage = tf.where(mask[..., tf.newaxis], memory, 1e4)
    longer = tf.pad(garbage, [[0, 0], [0, 3], [0, 0]], constant_values=-1e4)
    again, padded = attention(query, longer, mask_of(LENGTHS, POSITIONS + 3))
    close([again, padded[:, :, :POSITIONS]], [context, weights], 1e-6)


@pytest.mark.parametrize("score", ATTENTIONS)
def test_a_row_of_pads_alone_gets_zeros_and_zero_gradients(score):
    attention = make(score)
    query, memory, _ = inputs(attention)
    with tf.GradientTape() as tape:
        tape.watch([query, memory])
        context, weights = attention(query, memory, mask_of([3, 0, 1], POSITIONS))
        total = tf.reduce_sum(context**2) + tf.reduce_sum(weights**2)
    assert not weights[1].numpy().any() and not context[1].numpy().any()
    for gradient in tape.gradient(total, [query, memory, *attention.trainable_variables]):
        gradient = tf.convert_to_tensor(gradient)
        assert np.isfinite(gradient).all()
        if gradient.shape.rank == 3:
            assert not gradient[1].numpy().any() and gradient[0].numpy().any()


@pytest.mark.parametrize("score", ATTENTIONS)
def test_prepared_once_it_serves_many_queries(score):
    attention = make(score)
    query, memory, mask = inputs(attention, queries=4)
    together = attention(query, memory, mask)
    prepared = attention.prepare(memory, mask)
    for index in range(4):
        one = attention.attend(query[:, index : index + 1], prepared)
        close(one, [part[:, index : index + 1] for part in together], 1e-6)


@pytest.mark.usefixtures("mixed_bfloat16")
@pytest.mark.parametrize("score", ATTENTIONS)
def test_under_bfloat16_the_softmax_is_in_float32(score):
    attention = make(score)
    query, memory, mask = inputs(attention)
    context, weights = attention(query, memory, mask)
    assert context.dtype == tf.bfloat16 and weights.dtype == tf.float32
    # Weights rounded to bfloat16's 8 bits would miss one by far more.
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), 1.0, rtol=1e-6)
    scores = tf.cast(attention.score(query, attention.project_keys(memory)), tf.float32)
    close(weights, masked_softmax(scores, mask[:, tf.newaxis]), 1e-6)


def test_huge_scores_give_no_nan():
    scores = tf.constant([[1e30, -1e30, 1e30], [-1e30, -1e30, 0.0]])
    found = masked_softmax(scores, tf.constant([[True, True, True], [True, True, False]]))
    close(found, np.array([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0]]), 1e-6)


@pytest.mark.parametrize("score", ATTENTIONS)
def test_a_layer_made_from_its_configuration_is_equal(score):
    attention = make(score)
    again = type(attention).from_config(attention.get_config())
    again.build()
    again.set_weights(attention.get_weights())
    assert again.get_config() == attention.get_config()
    close(again(*inputs(attention)), attention(*inputs(attention)), 0.0)


def test_weights_start_in_the_range_asked_for():
    attention = make_attention(
        "additive", 50, query_size=40, memory_size=30, initializer_range=0.01
    )
    attention.build()
    for kernel in (attention.query_kernel, attention.memory_kernel, attention.vector):
        largest = np.abs(keras.ops.convert_to_numpy(kernel)).max()
        assert 0.005 < largest <= 0.01
    assert not keras.ops.convert_to_numpy(attention.bias).any()


def test_additive_is_as_wide_as_the_query_unless_told():
    assert make_attention("additive", None, query_size=4, memory_size=3).units == 4
    assert make_attention("additive", 7, query_size=4, memory_size=3).units == 7


def test_dot_of_unequal_sizes_is_refused_by_the_name_of_its_key():
    with pytest.raises(UserError, match=r"model\.attention\.score 'dot'.* 4 .* 3.*'general'"):
        DotAttention(4, 3)
