import numpy as np
import pytest
import tensorflow as tf

from models.encoders import RecurrentEncoder, with_a_position
from models.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from tests.models.examples import close, random_ids, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.recurrent import run_stack

VOCABULARY, EMBEDDING, UNITS = 7, 3, 2
LENGTHS = [3, 5, 1]

every_cell = pytest.mark.parametrize("cell", ["lstm", "gru"])
both_ways = pytest.mark.parametrize("bidirectional", [False, True])


def make(cell="lstm", bidirectional=True, layers=2, residual=True, **options):
    encoder = RecurrentEncoder(
        VOCABULARY,
        EMBEDDING,
        cell,
        UNITS,
        layers=layers,
        bidirectional=bidirectional,
        residual=residual,
        **options,
    )
    encoder.build()
    return randomize(encoder)


def expected(encoder, ids, arrays, lengths=LENGTHS):
    stack = encoder.stack
    embedded = arrays["embedding"][0][ids.numpy()]
    shape = (stack.bidirectional, stack.residual)
    return run_stack(stack.cell_name, embedded, lengths, arrays["stack"], *shape)


def parts(encoder):
    return {
        "embedding": encoder.embedding.trainable_variables,
        "stack": encoder.stack.trainable_variables,
    }


def states_in(encoded):
    """All final states, one after another."""
    finals = encoded.final_states
    return tf.nest.flatten([finals.forward, finals.backward or ()])


def real(encoded):
    return np.where(encoded.mask[..., tf.newaxis], encoded.memory, 0.0)


def test_the_marks_are_the_ids_that_stages_agree_on():
    assert (PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID) == (0, 1, 2, 3)


@pytest.mark.usefixtures("float64")
@every_cell
@both_ways
def test_forward_is_the_equation(cell, bidirectional):
    encoder = make(cell, bidirectional)
    ids = random_ids(LENGTHS, VOCABULARY, positions=6)
    encoded = encoder(ids)
    arrays = {"embedding": encoder.embedding.get_weights(), "stack": encoder.stack.get_weights()}
    memory, forward, backward = expected(encoder, ids, arrays)
    close(real(encoded), memory)
    close(encoded.final_states.forward, tuple(forward))
    assert (encoded.final_states.backward is None) == (not bidirectional)
    if bidirectional:
        close(encoded.final_states.backward, tuple(backward))
    assert encoded.memory.shape[-1] == encoder.memory_size
    np.testing.assert_array_equal(encoded.mask, ids.numpy() != PAD_ID)


@pytest.mark.usefixtures("float64")
@every_cell
@both_ways
def test_gradients_are_those_of_the_equation(cell, bidirectional):
    encoder = make(cell, bidirectional, layers=1)
    ids = random_ids([2, 3], VOCABULARY, positions=4)
    sides = np.random.default_rng(1).normal(size=(2, 4, encoder.memory_size))

    def loss():
        encoded = encoder(ids)
        return tf.reduce_sum(tf.where(encoded.mask[..., tf.newaxis], encoded.memory * sides, 0.0))

    def reference(arrays):
        return (expected(encoder, ids, arrays, [2, 3])[0] * sides).sum()

    assert_same_loss_and_gradients(loss, parts(encoder), reference)


@every_cell
@both_ways
def test_right_padding_changes_no_real_position(cell, bidirectional):
    encoder = make(cell, bidirectional)
    encoded = encoder(random_ids(LENGTHS, VOCABULARY))
    padded = encoder(random_ids(LENGTHS, VOCABULARY, positions=9))
    close(real(padded)[:, : max(LENGTHS)], real(encoded), 1e-6)
    close(tuple(padded.final_states), tuple(encoded.final_states), 1e-6)


@every_cell
@both_ways
def test_a_sentence_gives_alone_what_it_gives_in_any_batch(cell, bidirectional):
    encoder = make(cell, bidirectional)
    ids = random_ids(LENGTHS, VOCABULARY)
    encoded = encoder(ids)
    reversed_ = encoder(ids[::-1])
    close(real(reversed_)[::-1], real(encoded), 1e-6)
    for row, length in enumerate(LENGTHS):
        alone = encoder(ids[row : row + 1, :length])
        close(alone.memory[0], encoded.memory[row, :length], 1e-6)
        for one, many in zip(states_in(alone), states_in(encoded), strict=True):
            close(one[0], many[row], 1e-6)


def test_dropout_only_in_training():
    encoder = make(layers=1, residual=False, dropout=0.5)
    ids = random_ids(LENGTHS, VOCABULARY)
    close(encoder(ids).memory, encoder(ids).memory, 0.0)
    moved = encoder(ids, training=True)
    assert np.abs(real(moved) - real(encoder(ids))).max() > 1e-3


@every_cell
def test_a_batch_of_no_rows_has_a_position_at_least(cell):
    encoder = make(cell)
    run = tf.function(encoder, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    for positions in (0, 3):
        encoded = run(tf.zeros([0, positions], tf.int32))
        assert encoded.memory.shape == (0, max(positions, 1), encoder.memory_size)
        assert encoded.mask.shape == (0, max(positions, 1))
        assert all(part.shape == (0, UNITS) for part in states_in(encoded))


def test_a_position_is_added_only_where_there_is_none():
    assert with_a_position(tf.zeros([0, 0], tf.int32)).shape == (0, 1)
    assert with_a_position(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [[PAD_ID], [PAD_ID]]
    ids = random_ids(LENGTHS, VOCABULARY)
    for function in (with_a_position, tf.function(with_a_position, reduce_retracing=True)):
        np.testing.assert_array_equal(function(ids), ids)


@every_cell
@both_ways
def test_a_layer_made_from_its_configuration_is_equal(cell, bidirectional):
    encoder = make(cell, bidirectional, dropout=0.25, initializer_range=0.3)
    again = RecurrentEncoder.from_config(encoder.get_config())
    again.build()
    again.set_weights(encoder.get_weights())
    assert again.get_config() == encoder.get_config()
    ids = random_ids(LENGTHS, VOCABULARY)
    close(tuple(again(ids)), tuple(encoder(ids)), 0.0)


@pytest.mark.usefixtures("mixed_bfloat16")
def test_under_bfloat16_the_memory_is_of_compute_dtype():
    encoded = make()(random_ids([*LENGTHS, 0], VOCABULARY))
    assert encoded.memory.dtype == tf.bfloat16 and encoded.mask.dtype == tf.bool
    assert np.isfinite(tf.cast(encoded.memory, tf.float32)).all()
