import numpy as np
import pytest
import tensorflow as tf

from models.attention.spatial import SpatialAttention
from tests.models.attention.cases import CASES, NEED_EQUAL_SIZES, expected, options_of
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients

ROWS, COLUMNS, QUERIES, DEPTH = 2, 3, 2, 4
BATCH = 3

every_case = pytest.mark.parametrize(("kind", "score"), CASES)
SOME = [("soft", "additive"), ("soft", "multi_head"), ("local_predictive", "general")]


def make(kind="soft", score="additive", gate=True):
    memory_size = DEPTH if score in NEED_EQUAL_SIZES else 3
    layer = SpatialAttention(DEPTH, memory_size, options_of(kind, score), gate)
    layer.build()
    return randomize(layer)


def inputs(layer):
    query = random_tensor(BATCH, QUERIES, DEPTH, seed=1)
    return query, random_tensor(BATCH, ROWS, COLUMNS, layer.memory_size, seed=2)


def mask():
    """All cells of the first grid, one row of the second, none of the third."""
    full = np.zeros((BATCH, ROWS, COLUMNS), bool)
    full[0], full[1, 0] = True, True
    return tf.constant(full)


def reference(kind, score, query, grid, weights, gate, lengths=(6, 6, 6)):
    flat = grid.reshape(BATCH, ROWS * COLUMNS, -1)
    context, found = expected(kind, score, query, flat, weights, list(lengths))
    if gate:
        context = context / (1.0 + np.exp(-(query @ gate[0] + gate[1])))
    return context, found.reshape(BATCH, -1, ROWS, COLUMNS)


def parts(layer):
    gate = layer.gate.trainable_variables if layer.gate else []
    return {"weights": layer.attention.trainable_variables, "gate": gate}


@pytest.mark.usefixtures("float64")
@every_case
@pytest.mark.parametrize("gate", [False, True])
def test_forward_is_the_equation_over_the_cells(kind, score, gate):
    layer = make(kind, score, gate)
    query, grid = inputs(layer)
    arrays = {name: [v.numpy() for v in part] for name, part in parts(layer).items()}
    wanted = reference(kind, score, query.numpy(), grid.numpy(), **arrays)
    close(layer(query, grid), wanted)
    lengths = (6, 3, 0)
    close(
        layer(query, grid, mask()),
        reference(kind, score, query.numpy(), grid.numpy(), **arrays, lengths=lengths),
    )


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("kind", "score"), SOME)
def test_gradients_are_those_of_the_equation(kind, score):
    layer = make(kind, score)
    query, grid = inputs(layer)
    sides = random_tensor(BATCH, QUERIES, layer.memory_size, seed=3).numpy()

    def loss():
        return tf.reduce_sum(layer(query, grid)[0] * sides)

    def reference_loss(arrays):
        return (reference(kind, score, **arrays)[0] * sides).sum()

    assert_same_loss_and_gradients(
        loss, {"query": query, "grid": grid, **parts(layer)}, reference_loss
    )


@pytest.mark.usefixtures("mixed_float16")
def test_under_float16_a_grid_without_cells_gives_zeros():
    layer = make()
    context, weights = layer(*inputs(layer), mask())
    assert context.dtype == tf.float16 and weights.dtype == tf.float32
    assert np.isfinite(context).all()
    assert not context[2].numpy().any() and not weights[2].numpy().any()


def test_a_prepared_grid_of_any_size_serves_many_queries_in_a_graph():
    layer = make()
    query, grid = inputs(layer)
    specs = [tf.TensorSpec([None, None, DEPTH]), tf.TensorSpec([None, None, None, 3])]
    together = tf.function(layer, input_signature=specs)(query, grid)
    memory = layer.prepare(grid)
    for index in range(QUERIES):
        one = layer.attend(query[:, index : index + 1], memory)
        close(one[:2], tuple(part[:, index : index + 1] for part in together), 1e-6)


@pytest.mark.parametrize(("kind", "score"), SOME)
def test_a_layer_made_from_its_configuration_is_equal(kind, score):
    layer = make(kind, score)
    again = SpatialAttention.from_config(layer.get_config())
    again.build()
    again.set_weights(layer.get_weights())
    assert again.get_config() == layer.get_config()
    close(again(*inputs(layer)), layer(*inputs(layer)), 0.0)
