import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.window import WindowStack, WindowState
from tests.models.examples import close, mask_of, random_tensor, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.window import run_window

FEATURES, UNITS = 3, 2
LENGTHS = [3, 1, 4, 0]
POSITIONS = 5

every_shape = pytest.mark.parametrize(
    "shape",
    [{"order": 2}, {"order": 3}, {"order": 5, "layers": 2}, {"order": 9}],
    ids=["bigram", "trigram", "deep", "longer-than-the-text"],
)


def make(**shape):
    stack = WindowStack(FEATURES, UNITS, **shape)
    stack.build((None, None, FEATURES))
    return randomize(stack)


def inputs(lengths=LENGTHS, positions=POSITIONS):
    return random_tensor(len(lengths), positions, FEATURES), mask_of(lengths, positions)


def real(outputs, lengths=LENGTHS):
    return np.where(mask_of(lengths, outputs.shape[1])[..., tf.newaxis], outputs, 0.0)


def flat(words):
    return words.reshape(len(words), -1)


@pytest.mark.usefixtures("float64")
@every_shape
def test_forward_is_the_equation(shape):
    stack = make(**shape)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    wanted, last = run_window(sequences.numpy(), LENGTHS, stack.get_weights(), stack.order)
    assert outputs.shape == (len(LENGTHS), POSITIONS, stack.output_size)
    close(real(outputs), wanted)
    close(finals.forward, (WindowState(flat(last)),))
    assert finals.backward is None


@pytest.mark.usefixtures("float64")
@every_shape
def test_it_goes_on_from_the_words_given(shape):
    stack = make(**shape)
    sequences, _ = inputs()
    before = random_tensor(len(LENGTHS), stack.order - 2, FEATURES, seed=3).numpy()
    outputs, finals = stack(sequences, initial_state=(WindowState(tf.constant(flat(before))),))
    whole = [POSITIONS] * len(LENGTHS)
    wanted, last = run_window(sequences.numpy(), whole, stack.get_weights(), stack.order, before)
    close(outputs, wanted)
    close(finals.forward[0].words, flat(last))


@pytest.mark.usefixtures("float64")
@every_shape
def test_gradients_are_those_of_the_equation(shape):
    stack = make(**shape)
    lengths = [2, 3]
    sequences, mask = inputs(lengths, 4)
    sides = real(random_tensor(2, 4, UNITS, seed=5), lengths)
    ends = random_tensor(2, (stack.order - 2) * FEATURES, seed=6).numpy()

    def loss():
        outputs, finals = stack(sequences, mask=mask)
        return tf.reduce_sum(outputs * sides) + tf.reduce_sum(finals.forward[0].words * ends)

    def reference(arrays):
        outputs, last = run_window(arrays["inputs"], lengths, arrays["weights"], stack.order)
        return (outputs * sides).sum() + (flat(last) * ends).sum()

    variables = {"inputs": sequences, "weights": stack.trainable_variables}
    assert_same_loss_and_gradients(loss, variables, reference)


@every_shape
def test_a_position_sees_itself_and_the_words_of_its_window_alone(shape):
    stack = make(**shape)
    sequences, _ = inputs()
    outputs = stack(sequences)[0].numpy()
    for position in range(POSITIONS):
        moved = sequences.numpy()
        moved[:, position] += 1.0
        changed = np.abs(stack(moved)[0] - outputs).max((0, 2)) > 1e-6
        ages = np.arange(POSITIONS) - position
        np.testing.assert_array_equal(changed, (ages >= 0) & (ages <= stack.order - 2))


@every_shape
def test_steps_give_what_the_whole_sequence_gives(shape):
    stack = make(**shape)
    sequences, _ = inputs()
    outputs, finals = stack(sequences)
    state = stack.first_state(len(LENGTHS))
    for position in range(POSITIONS):
        output, state = stack.step(sequences[:, position], state)
        close(output, outputs[:, position], 1e-6)
    close(state, finals.forward, 1e-6)


@every_shape
def test_halves_give_what_the_whole_sequence_gives(shape):
    stack = make(**shape)
    sequences, _ = inputs()
    outputs, finals = stack(sequences)
    first, between = stack(sequences[:, :2])
    second, after = stack(sequences[:, 2:], initial_state=between.forward)
    close(tf.concat([first, second], 1), outputs, 1e-6)
    close(after.forward, finals.forward, 1e-6)


@every_shape
def test_right_padding_and_what_stands_there_change_nothing(shape):
    stack = make(**shape)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    garbage = tf.where(mask[..., tf.newaxis], sequences, 50.0)
    longer = tf.pad(garbage, [[0, 0], [0, 3], [0, 0]], constant_values=-50.0)
    again, after = stack(longer, mask=mask_of(LENGTHS, POSITIONS + 3))
    close(real(again)[:, :POSITIONS], real(outputs), 1e-6)
    close(after.forward, finals.forward, 1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_in_a_graph_of_unknown_sizes(jit_compile):
    stack = make(order=4)
    run = tf.function(
        lambda sequences, mask: stack(sequences, mask=mask),
        input_signature=[
            tf.TensorSpec([None, None, FEATURES]),
            tf.TensorSpec([None, None], tf.bool),
        ],
        jit_compile=jit_compile,
    )
    sequences, mask = inputs()
    close(tuple(run(sequences, mask)), tuple(stack(sequences, mask=mask)))
    outputs, finals = run(tf.zeros([0, 4, FEATURES]), tf.ones([0, 4], tf.bool))
    assert outputs.shape == (0, 4, UNITS)
    assert finals.forward[0].words.shape == (0, 2 * FEATURES)


def test_dropout_falls_between_layers_and_only_in_training():
    stack = make(layers=2, dropout=0.5)
    sequences, _ = inputs()
    still = stack(sequences)[0]
    close(stack(sequences)[0], still, 0.0)
    assert np.abs(stack(sequences, training=True)[0] - still).max() > 1e-3
    alone = make(layers=1, dropout=0.5)
    close(alone(sequences, training=True)[0], alone(sequences)[0], 0.0)


@every_shape
def test_a_layer_made_from_its_configuration_is_equal(shape):
    stack = make(**shape, dropout=0.25, initializer_range=0.3)
    again = WindowStack.from_config(stack.get_config())
    again.build((None, None, FEATURES))
    again.set_weights(stack.get_weights())
    assert again.get_config() == stack.get_config()
    sequences, mask = inputs()
    close(tuple(again(sequences, mask=mask)), tuple(stack(sequences, mask=mask)), 0.0)


@pytest.mark.usefixtures("mixed_bfloat16")
def test_under_bfloat16_outputs_and_state_are_of_compute_dtype():
    stack = make(order=4)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    for part in (outputs, finals.forward[0].words, stack.first_state(2)[0].words):
        assert part.dtype == tf.bfloat16
    assert all(weight.dtype == "float32" for weight in stack.trainable_variables)
    wanted, _ = run_window(
        tf.cast(sequences, tf.float32).numpy(), LENGTHS, stack.get_weights(), stack.order
    )
    np.testing.assert_allclose(real(tf.cast(outputs, tf.float32)), wanted, atol=0.03)


def test_a_mask_is_not_handed_on():
    sequences, mask = inputs()
    assert make().compute_mask(sequences, mask) is None


def test_a_window_without_a_word_is_refused():
    with pytest.raises(UserError, match=r"model\.language_model\.window: got 1, expected 2"):
        WindowStack(FEATURES, UNITS, order=1)
