"""What every attention does alike."""

import numpy as np
import pytest
import tensorflow as tf

from models.attention.contract import masked_softmax
from models.attention.kinds import ATTENTIONS
from models.attention.scores import SCORES
from tests.models.attention.cases import (
    CASES,
    LENGTHS,
    POSITIONS,
    expected,
    inputs,
    make,
    trainable,
)
from tests.models.examples import close, mask_of, random_tensor
from tests.models.reference import attention as reference
from tests.models.reference.gradients import assert_same_loss_and_gradients

every_case = pytest.mark.parametrize(("kind", "score"), CASES)


def test_the_reference_covers_every_member():
    assert reference.SCORES.keys() == SCORES.keys()
    assert reference.KINDS.keys() == ATTENTIONS.keys()


@pytest.mark.usefixtures("float64")
@every_case
def test_forward_is_the_equation(kind, score):
    attention = make(kind, score)
    query, memory, mask = inputs(attention)
    found = attention(query, memory, mask)
    close(found, expected(kind, score, query.numpy(), memory.numpy(), trainable(attention)))


@every_case
def test_one_query_a_row_over_a_longer_memory(kind, score, positions=24):
    """The shape of a decoder's step, in which products can be batched in other ways."""
    attention = make(kind, score)
    query = random_tensor(3, 1, attention.query_size, seed=1)
    memory = random_tensor(3, positions, attention.memory_size, seed=2)
    lengths = [positions, 2, 5]
    place = np.array([[7], [3], [0]], np.int32)
    arrays = (query.numpy(), memory.numpy(), trainable(attention))
    wanted = expected(kind, score, *arrays, lengths, place)
    for _ in range(5):
        close(attention(query, memory, mask_of(lengths, positions), tf.constant(place)), wanted)


@pytest.mark.usefixtures("float64")
@every_case
def test_gradients_are_those_of_the_equation(kind, score):
    attention = make(kind, score)
    query, memory, mask = inputs(attention, queries=2)
    sides = random_tensor(*query.shape[:2], attention.memory_size, seed=3).numpy()
    tops = random_tensor(*query.shape[:2], POSITIONS, seed=4).numpy()
    # Through the likeliest position a gradient reaches what stands there, and nothing else.
    variables = {"memory": memory}
    if kind != "hard":
        variables |= {"query": query, "weights": attention.trainable_variables}

    def loss():
        context, weights = attention(query, memory, mask)
        return tf.reduce_sum(context * sides) + tf.reduce_sum(tf.cast(weights, tf.float64) * tops)

    def reference_loss(arrays):
        given = {"query": query.numpy(), "weights": trainable(attention), **arrays}
        context, weights = expected(kind, score, **given)
        return (context * sides).sum() + (weights * tops).sum()

    assert_same_loss_and_gradients(loss, variables, reference_loss)


@every_case
@pytest.mark.parametrize("training", [False, True])
def test_weights_of_a_query_sum_to_one_and_are_zero_at_pads(kind, score, training):
    attention = make(kind, score)
    query, memory, mask = inputs(attention)
    weights = attention(query, memory, mask, training=training)[1].numpy()
    assert (weights[~np.broadcast_to(mask[:, np.newaxis], weights.shape)] == 0.0).all()
    if kind == "local_predictive":
        assert (weights.sum(-1) < 1.0).all() and (weights.sum(-1) > 0.0).all()
    else:
        np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-6)


@every_case
def test_what_stands_at_pads_and_how_many_there_are_changes_nothing(kind, score):
    attention = make(kind, score)
    query, memory, mask = inputs(attention)
    context, weights = attention(query, memory, mask)
    garbage = tf.where(mask[..., tf.newaxis], memory, 1e4)
    longer = tf.pad(garbage, [[0, 0], [0, 3], [0, 0]], constant_values=-1e4)
    again, padded = attention(query, longer, mask_of(LENGTHS, POSITIONS + 3))
    close([again, padded[:, :, :POSITIONS]], [context, weights], 1e-6)


@every_case
@pytest.mark.parametrize("training", [False, True])
def test_a_row_of_pads_alone_gets_zeros_and_zero_gradients(kind, score, training):
    attention = make(kind, score)
    query, memory, _ = inputs(attention)
    mask = mask_of([3, 0, 1], POSITIONS)
    with tf.GradientTape() as tape:
        tape.watch([query, memory])
        attended = attention.attend(query, attention.prepare(memory, mask), training=training)
        context, weights, draw = attended
        total = tf.reduce_sum(context**2) + tf.reduce_sum(weights**2)
        total += tf.reduce_sum(draw.log_probability) + tf.reduce_sum(draw.entropy)
    assert not weights[1].numpy().any() and not context[1].numpy().any()
    assert not draw.log_probability[1].numpy().any() and not draw.entropy[1].numpy().any()
    gradients = tape.gradient(total, [query, memory, *attention.trainable_variables])
    assert gradients[1][0].numpy().any()
    for gradient in gradients:
        if gradient is not None:
            assert np.isfinite(tf.convert_to_tensor(gradient)).all()
    for gradient in gradients[:2]:
        assert gradient is None or not gradient[1].numpy().any()


@every_case
def test_prepared_once_it_serves_many_queries(kind, score):
    attention = make(kind, score)
    query, memory, mask = inputs(attention, queries=4)
    together = attention(query, memory, mask)
    prepared = attention.prepare(memory, mask)
    for index in range(4):
        place = tf.fill([len(LENGTHS), 1], index)
        one = attention.attend(query[:, index : index + 1], prepared, place)
        close(one[:2], tuple(part[:, index : index + 1] for part in together), 1e-6)


@pytest.mark.usefixtures("mixed_bfloat16")
@every_case
def test_under_bfloat16_the_softmax_is_in_float32(kind, score):
    attention = make(kind, score)
    query, memory, mask = inputs(attention)
    context, weights = attention(query, memory, mask)
    assert context.dtype == tf.bfloat16 and weights.dtype == tf.float32
    # Weights rounded to bfloat16's 8 bits would miss one by far more.
    if kind != "local_predictive":
        np.testing.assert_allclose(tf.reduce_sum(weights, -1), 1.0, rtol=1e-6)


@pytest.mark.usefixtures("mixed_float16")
@every_case
@pytest.mark.parametrize("training", [False, True])
def test_under_float16_nothing_becomes_nan(kind, score, training):
    """Not where scores are past what it holds, nor in a row of pads alone."""
    attention = make(kind, score, scale=3.0 if score == "multi_head" else 30.0)
    query, memory, _ = inputs(attention)
    mask = mask_of([3, 0, 1], POSITIONS)
    for size in (1.0, 100.0, -100.0):
        context, weights = attention(query * size, memory * size, mask, training=training)
        assert context.dtype == tf.float16 and not np.isnan(context).any()
        assert np.isfinite(weights).all()
        assert not weights[1].numpy().any() and not context[1].numpy().any()
        if kind != "local_predictive":
            np.testing.assert_allclose(tf.reduce_sum(weights, -1)[0], 1.0, rtol=1e-6)


def test_huge_and_infinite_scores_give_no_nan():
    huge, infinite = 1e30, np.inf
    for most in (huge, infinite):
        scores = tf.constant([[most, -most, most], [-most, -most, 0.0], [-most, -most, most]])
        mask = tf.constant([[True, True, True], [True, True, False], [False, False, False]])
        found = masked_softmax(scores, mask)
        close(found, np.array([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]), 1e-6)


@every_case
def test_any_sizes_in_one_graph_and_an_empty_batch(kind, score):
    attention = make(kind, score)
    specs = [
        tf.TensorSpec([None, None, attention.query_size]),
        tf.TensorSpec([None, None, attention.memory_size]),
        tf.TensorSpec([None, None], tf.bool),
    ]
    run = tf.function(attention, input_signature=specs)
    close(run(*inputs(attention)), attention(*inputs(attention)), 1e-6)
    query, memory, mask = (part[:0] for part in inputs(attention))
    context, weights = run(query, memory, mask)
    assert context.shape == (0, 3, attention.memory_size) and weights.shape == (0, 3, POSITIONS)


@pytest.mark.parametrize(
    ("kind", "score"),
    [("soft", "concat"), ("hard", "general"), ("local_predictive", "dot"), ("soft", "multi_head")],
)
def test_xla_compiles_it_drawing_or_not(kind, score):
    attention = make(kind, score)
    for training in (False, True):
        run = lambda *given, training=training: attention(*given, training=training)  # noqa: E731
        found = tf.function(run, jit_compile=True)(*inputs(attention))
        if not (training and kind == "hard"):
            close(found, attention(*inputs(attention)))


@every_case
def test_a_layer_made_from_its_configuration_is_equal(kind, score):
    attention = make(kind, score)
    again = type(attention).from_config(attention.get_config())
    again.build()
    again.set_weights(attention.get_weights())
    assert again.get_config() == attention.get_config()
    close(again(*inputs(attention)), attention(*inputs(attention)), 0.0)
