import numpy as np
import pytest
import tensorflow as tf

from models.attention.kinds import make_attention
from models.attention.multi_head import SelfAttention
from models.encoders import RecurrentEncoder
from models.errors import UserError
from tests.models.examples import close, mask_of, random_ids, random_tensor, randomize
from tests.models.reference import attention as reference
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.recurrent import run_stack

LENGTHS, POSITIONS, SIZE, HEADS = [3, 5, 1], 5, 6, 3
shapes = pytest.mark.parametrize(
    ("residual", "normalize"), [(True, True), (True, False), (False, True), (False, False)]
)


def make(residual=True, normalize=True, **options):
    layer = SelfAttention(SIZE, HEADS, residual, normalize, **options)
    layer.build()
    return randomize(layer)


def real(outputs, lengths=LENGTHS):
    mask = mask_of(lengths, outputs.shape[1])[..., tf.newaxis]
    return tf.where(mask, outputs, tf.zeros_like(outputs))


def weights_of(layer):
    """Those of the attention, then gain and shift."""
    variables = layer.attention.trainable_variables
    return variables + (layer.normalization.trainable_variables if layer.normalization else [])


@pytest.mark.usefixtures("float64")
@shapes
def test_forward_is_the_equation(residual, normalize):
    layer = make(residual, normalize)
    inputs = random_tensor(3, POSITIONS, SIZE, seed=1)
    outputs, weights = layer(inputs, mask=mask_of(LENGTHS, POSITIONS))
    arrays = [variable.numpy() for variable in weights_of(layer)]
    close(
        real(outputs),
        reference.self_attention(inputs.numpy(), LENGTHS, arrays, HEADS, residual, normalize),
    )
    np.testing.assert_allclose(tf.reduce_sum(weights, -1), 1.0, rtol=1e-6)


@pytest.mark.usefixtures("float64")
@shapes
def test_gradients_are_those_of_the_equation(residual, normalize):
    layer = make(residual, normalize)
    inputs = random_tensor(2, 3, SIZE, seed=1)
    sides = random_tensor(2, 3, SIZE, seed=2).numpy()
    lengths = [3, 2]

    def loss():
        return tf.reduce_sum(real(layer(inputs, mask=mask_of(lengths, 3))[0], lengths) * sides)

    def reference_loss(arrays):
        shape = (HEADS, residual, normalize)
        found = reference.self_attention(arrays["inputs"], lengths, arrays["weights"], *shape)
        return (found * sides).sum()

    # Keras's normalisation computes in single precision.
    variables = {"inputs": inputs, "weights": weights_of(layer)}
    assert_same_loss_and_gradients(loss, variables, reference_loss, 1e-4 if normalize else 1e-5)


def test_pads_change_nothing_and_a_row_of_pads_gives_no_nan():
    layer = make()
    inputs = random_tensor(3, POSITIONS, SIZE, seed=1)
    outputs, _ = layer(inputs, mask=mask_of(LENGTHS, POSITIONS))
    longer = tf.pad(real(inputs), [[0, 0], [0, 2], [0, 0]], constant_values=1e4)
    again, _ = layer(longer, mask=mask_of(LENGTHS, POSITIONS + 2))
    close(real(again)[:, :POSITIONS], real(outputs), 1e-6)
    outputs, weights = layer(inputs, mask=mask_of([3, 0, 1], POSITIONS))
    assert np.isfinite(outputs).all() and not weights[1].numpy().any()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(policy, request):
    request.getfixturevalue(policy)
    layer = make()
    inputs = random_tensor(3, POSITIONS, SIZE, seed=1) * 100.0
    outputs, weights = layer(inputs, mask=mask_of([3, 0, 1], POSITIONS))
    assert outputs.dtype == layer.compute_dtype and weights.dtype == tf.float32
    assert np.isfinite(tf.cast(outputs, tf.float32)).all() and np.isfinite(weights).all()


def test_dropout_only_in_training():
    layer = make(dropout=0.5)
    given = (random_tensor(3, POSITIONS, SIZE, seed=1), mask_of(LENGTHS, POSITIONS))
    close(layer(*given), layer(*given), 0.0)
    assert np.abs(layer(*given, training=True)[0] - layer(*given)[0]).max() > 1e-3


@shapes
def test_a_layer_made_from_its_configuration_is_equal(residual, normalize):
    layer = make(residual, normalize, dropout=0.25)
    again = SelfAttention.from_config(layer.get_config())
    again.build()
    again.set_weights(layer.get_weights())
    assert again.get_config() == layer.get_config()
    given = (random_tensor(3, POSITIONS, SIZE, seed=1), mask_of(LENGTHS, POSITIONS))
    close(again(*given), layer(*given), 0.0)


def make_encoder(layers=2, **options):
    encoder = RecurrentEncoder(
        7, 3, "gru", 3, self_attention={"layers": layers, "heads": HEADS}, **options
    )
    encoder.build()
    return randomize(encoder)


@pytest.mark.usefixtures("float64")
def test_an_encoder_attends_to_what_its_recurrent_layers_give():
    encoder = make_encoder()
    ids = random_ids(LENGTHS, 7)
    encoded = encoder(ids)
    embedded = encoder.embedding.get_weights()[0][ids.numpy()]
    memory, forward, _ = run_stack("gru", embedded, LENGTHS, encoder.stack.get_weights(), True)
    for layer in encoder.self_attention:
        arrays = [variable.numpy() for variable in weights_of(layer)]
        memory = reference.self_attention(memory, LENGTHS, arrays, HEADS)
    close(real(encoded.memory), memory, 1e-4)
    close(encoded.final_states.forward, tuple(forward))


def test_an_encoder_has_none_unless_told_and_keeps_them_in_its_configuration():
    assert RecurrentEncoder(7, 3, "gru", 3).self_attention == []
    encoder = make_encoder(dropout=0.1)
    again = RecurrentEncoder.from_config(encoder.get_config())
    assert again.get_config() == encoder.get_config()
    assert len(again.self_attention) == 2
    assert again.self_attention[0].get_config() == encoder.self_attention[0].get_config()


def test_heads_that_do_not_divide_a_width_are_refused_by_their_key():
    with pytest.raises(UserError, match=r"model\.attention\.heads is 3.* 4 .*units.*divisor of 4"):
        make_attention("multi_head", heads=3, query_size=4, memory_size=3)
    with pytest.raises(UserError, match=r"model\.encoder\.self_attention\.heads is 4.* 6 "):
        SelfAttention(6, 4)
