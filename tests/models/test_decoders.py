import numpy as np
import pytest
import tensorflow as tf

from models.cells.kinds import CELLS
from models.decoders.kinds import DECODERS
from models.encoders import EncoderOutput
from models.recurrent import FinalStates
from tests.models.examples import close, mask_of, random_ids, random_tensor, randomize
from tests.models.reference import decoders as reference
from tests.models.reference.gradients import assert_same_loss_and_gradients

VOCABULARY, EMBEDDING, UNITS, MEMORY = 7, 3, 4, 4
LENGTHS = [3, 5, 1]
POSITIONS, STEPS = 5, 4

KINDS = {
    "luong": ("luong", {}),
    "luong-fed": ("luong", {"input_feeding": True}),
    "bahdanau": ("bahdanau", {}),
}
every_kind = pytest.mark.parametrize("name", KINDS)
every_cell = pytest.mark.parametrize("cell", ["lstm", "gru"])
every_score = pytest.mark.parametrize("score", ["dot", "general", "additive"])


def make(name, cell="lstm", score="general", layers=2, residual=True, **options):
    kind, own = KINDS[name]
    decoder = DECODERS[kind](
        VOCABULARY,
        MEMORY,
        EMBEDDING,
        cell,
        UNITS,
        layers=layers,
        residual=residual,
        attention={"score": score, "units": None},
        bridge={"name": "copy", "encoder_units": UNITS, "encoder_layers": layers},
        **own,
        **options,
    )
    decoder.build()
    return randomize(decoder)


def source_of(decoder, lengths=LENGTHS, positions=POSITIONS):
    """What an encoder might hand over."""
    state_type = CELLS[decoder.stack.cell_name][1]
    rows = len(lengths)
    states = tuple(
        state_type(*[random_tensor(rows, UNITS, seed=10 * layer + part) for part in range(parts)])
        for layer, parts in enumerate([len(state_type._fields)] * len(decoder.stack.layers))
    )
    memory = random_tensor(rows, positions, MEMORY, seed=3)
    return EncoderOutput(memory, mask_of(lengths, positions), FinalStates(states, None))


def tokens_of(rows=None, steps=STEPS):
    return random_ids([steps] * (rows or len(LENGTHS)), VOCABULARY, seed=4)


def read(decoder, tokens, source, **options):
    return decoder(tokens, *decoder.prepare(source), **options)


def parts(decoder):
    return {
        "embedding": decoder.embedding.trainable_variables,
        "stack": decoder.stack.trainable_variables,
        "attention": decoder.attention.trainable_variables,
        "combine": decoder.combine.trainable_variables,
    }


def expected(name, decoder, tokens, arrays, lengths=LENGTHS):
    """Features and attention by the reference; arrays hold `memory`, `states`, `weights`."""
    kind, own = KINDS[name]
    options = {"residual": decoder.stack.residual}
    if kind == "luong":
        options["feeding"] = own.get("input_feeding", False)
    return getattr(reference, kind)(
        decoder.stack.cell_name,
        decoder.attention_options["score"],
        tokens.numpy(),
        arrays["memory"],
        lengths,
        arrays["states"],
        arrays["weights"],
        **options,
    )


@pytest.mark.usefixtures("float64")
@every_kind
@every_cell
@every_score
def test_forward_is_the_equation(name, cell, score):
    decoder = make(name, cell, score)
    source, tokens = source_of(decoder), tokens_of()
    features, weights = read(decoder, tokens, source)
    arrays = {
        "memory": source.memory.numpy(),
        "states": tf.nest.map_structure(np.array, source.final_states.forward),
        "weights": {key: [np.array(v) for v in each] for key, each in parts(decoder).items()},
    }
    wanted = expected(name, decoder, tokens, arrays)
    assert features.shape == (len(LENGTHS), STEPS, UNITS)
    assert weights.shape == (len(LENGTHS), STEPS, POSITIONS) and weights.dtype == tf.float32
    close((features, weights), wanted)


@pytest.mark.usefixtures("float64")
@every_kind
@pytest.mark.parametrize(("cell", "score"), [("lstm", "general"), ("gru", "additive")])
def test_gradients_are_those_of_the_equation(name, cell, score):
    lengths = [2, 3]
    decoder = make(name, cell, score, layers=1, residual=False)
    source, tokens = source_of(decoder, lengths, 3), tokens_of(2, 3)
    sides = random_tensor(2, 3, UNITS, seed=5).numpy()
    tops = random_tensor(2, 3, 3, seed=6).numpy()

    def loss():
        features, weights = read(decoder, tokens, source)
        return tf.reduce_sum(features * sides) + tf.reduce_sum(tf.cast(weights, tf.float64) * tops)

    def reference_loss(arrays):
        features, weights = expected(name, decoder, tokens, arrays, lengths)
        return (features * sides).sum() + (weights * tops).sum()

    variables = {
        "memory": source.memory,
        "states": source.final_states.forward,
        "weights": parts(decoder),
    }
    assert_same_loss_and_gradients(loss, variables, reference_loss)


@every_kind
@every_cell
@every_score
def test_known_targets_give_what_the_steps_give(name, cell, score):
    decoder = make(name, cell, score)
    tokens = tokens_of()
    memory, state = decoder.prepare(source_of(decoder))
    features, weights = decoder(tokens, memory, state)
    for position in range(STEPS):
        outcome = decoder.step(tokens[:, position : position + 1], memory, state)
        close(outcome.features[:, 0], features[:, position], 1e-6)
        close(outcome.weights[:, 0], weights[:, position], 1e-6)
        tf.nest.assert_same_structure(outcome.state, state)
        state = outcome.state


@every_kind
def test_hypotheses_of_a_sentence_do_not_mix(name):
    """Each of K words reads the state of its own hypothesis and the memory of its sentence."""
    decoder = make(name)
    memory, state = decoder.prepare(source_of(decoder))
    tokens = random_ids([3] * len(LENGTHS), VOCABULARY, seed=8)
    wide = tf.nest.map_structure(
        lambda part: tf.repeat(part, 3, 1) + random_tensor(1, 3, 1, seed=9),
        state._replace(place=()),
    )
    wide = wide._replace(place=tf.constant([[0, 1, 2]] * len(LENGTHS)))
    together = decoder.step(tokens, memory, wide)
    for hypothesis in range(3):
        own = slice(hypothesis, hypothesis + 1)
        alone = decoder.step(
            tokens[:, own], memory, tf.nest.map_structure(lambda part, own=own: part[:, own], wide)
        )
        close(alone, tf.nest.map_structure(lambda part, own=own: part[:, own], together), 1e-6)


@every_kind
@every_cell
def test_source_pads_and_the_rest_of_the_batch_change_nothing(name, cell):
    decoder = make(name, cell)
    source, tokens = source_of(decoder), tokens_of()
    features, weights = read(decoder, tokens, source)
    longer = EncoderOutput(
        tf.pad(source.memory, [[0, 0], [0, 2], [0, 0]], constant_values=1e4),
        mask_of(LENGTHS, POSITIONS + 2),
        source.final_states,
    )
    again, padded = read(decoder, tokens, longer)
    close((again, padded[..., :POSITIONS]), (features, weights), 1e-6)
    assert not padded[..., POSITIONS:].numpy().any()
    for row, length in enumerate(LENGTHS):
        own = slice(row, row + 1)
        alone = EncoderOutput(
            source.memory[own, :length],
            source.mask[own, :length],
            tf.nest.map_structure(lambda part, own=own: part[own], source.final_states.forward),
        )
        alone = alone._replace(final_states=FinalStates(alone.final_states, None))
        found = read(decoder, tokens[own], alone)
        close(found, (features[own], weights[own, :, :length]), 1e-6)


@every_kind
def test_a_step_reads_no_later_word(name):
    decoder = make(name)
    source, tokens = source_of(decoder), tokens_of()
    features = read(decoder, tokens, source)[0]
    other = tf.concat([tokens[:, :2], 11 - tokens[:, 2:]], 1)  # ids 4 to 6 become 7 to 5
    other = tf.minimum(other, VOCABULARY - 1)
    moved = read(decoder, other, source)[0]
    close(moved[:, :2], features[:, :2], 1e-6)
    assert np.abs(moved[:, 2:] - features[:, 2:]).max() > 1e-3


@every_kind
def test_a_source_of_pads_alone_gives_no_nan(name):
    decoder = make(name)
    features, weights = read(decoder, tokens_of(), source_of(decoder, [0, 3, 2]))
    assert np.isfinite(features).all() and not weights[0].numpy().any()


@every_kind
@every_cell
def test_a_batch_of_no_rows(name, cell):
    decoder = make(name, cell)
    specs = tf.nest.map_structure(
        lambda part: tf.TensorSpec([None, *part.shape[1:]], part.dtype),
        decoder.prepare(source_of(decoder)),
    )
    run = tf.function(decoder, input_signature=[tf.TensorSpec([None, None], tf.int32), *specs])
    none = decoder.prepare(source_of(decoder, []))
    features, weights = run(tf.zeros([0, STEPS], tf.int32), *none)
    assert features.shape == (0, STEPS, UNITS) and weights.shape == (0, STEPS, POSITIONS)


def test_what_is_fed_back_is_the_features_of_the_step_before():
    decoder = make("luong-fed")
    memory, state = decoder.prepare(source_of(decoder))
    assert state.attentional.shape == (len(LENGTHS), 1, UNITS)
    assert not state.attentional.numpy().any()
    outcome = decoder.step(tokens_of()[:, :1], memory, state)
    close(outcome.state.attentional, outcome.features, 0.0)
    other = outcome.state._replace(attentional=outcome.state.attentional + 1.0)
    moved = decoder.step(tokens_of()[:, 1:2], memory, other)
    assert np.abs(moved.features - outcome.features).max() > 1e-3


@pytest.mark.parametrize("name", ["luong", "bahdanau"])
def test_nothing_is_carried_where_nothing_is_fed_back(name):
    decoder = make(name)
    assert decoder.prepare(source_of(decoder))[1].attentional.shape == (len(LENGTHS), 1, 0)


def test_without_input_feeding_known_targets_are_one_run_of_the_stack(monkeypatch):
    decoder = make("luong")
    monkeypatch.setattr(decoder, "advance", lambda *_: pytest.fail("it steps"))
    read(decoder, tokens_of(), source_of(decoder))


@every_kind
def test_dropout_only_in_training(name):
    decoder = make(name, dropout=0.5)
    source, tokens = source_of(decoder), tokens_of()
    still, _ = read(decoder, tokens, source)
    close(read(decoder, tokens, source)[0], still, 0.0)
    features = read(decoder, tokens, source, training=True)[0].numpy()
    assert np.abs(features - still).max() > 1e-3
    # The features themselves are dropped last: about half of them are zero.
    assert 0.25 < (features == 0.0).mean() < 0.75


@every_kind
@pytest.mark.usefixtures("mixed_bfloat16")
def test_under_bfloat16_features_compute_in_it_and_attention_in_float32(name):
    decoder = make(name)
    features, weights = read(decoder, tokens_of(), source_of(decoder, [3, 0, 1]))
    assert features.dtype == tf.bfloat16 and weights.dtype == tf.float32
    assert np.isfinite(tf.cast(features, tf.float32)).all() and np.isfinite(weights).all()


@every_kind
@every_cell
def test_a_layer_made_from_its_configuration_is_equal(name, cell):
    decoder = make(name, cell, "additive", dropout=0.25, initializer_range=0.3)
    again = type(decoder).from_config(decoder.get_config())
    again.build()
    again.set_weights(decoder.get_weights())
    assert again.get_config() == decoder.get_config()
    source, tokens = source_of(decoder), tokens_of()
    close(read(again, tokens, source), read(decoder, tokens, source), 0.0)


@pytest.mark.parametrize("kind", DECODERS)
def test_defaults_make_a_decoder_that_starts_from_zeros(kind):
    decoder = DECODERS[kind](VOCABULARY, MEMORY, units=UNITS)
    decoder.build()
    state = decoder.prepare(source_of(decoder))[1]
    assert not any(part.numpy().any() for part in tf.nest.flatten(state))
