"""Every kind in every decoder: known targets, steps, searches and graphs agree."""

import numpy as np
import pytest
import tensorflow as tf

from models.attention.kinds import ATTENTIONS
from models.search.hypotheses import SearchOptions, length_penalty
from tests.models.examples import (
    MODELS,
    close,
    make_model,
    mask_of,
    random_tensor,
    sentences,
    shifted,
)
from tests.models.reference.attention import attend

KINDS = {kind: {"kind": kind, "score": "general", "window": 1} for kind in ATTENTIONS}
KINDS["multi_head"] = {"score": "multi_head", "heads": 2, "units": 4}
SOURCE_LENGTHS, TARGET_LENGTHS = [2, 4, 1], [6, 1, 2]

everywhere = pytest.mark.parametrize("name", MODELS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(name, kind):
    return make_model(name, scale=1.0, attention=KINDS[kind])


def batch():
    labels = sentences(TARGET_LENGTHS, seed=5)
    return sentences(SOURCE_LENGTHS), shifted(labels), labels


def search_options(kind):
    nbest = 1 if kind == "greedy" else 2
    return SearchOptions(
        kind=kind, beam_size=3, nbest=nbest, max_length_factor=1.5, max_length_extra=2
    )


@everywhere
@every_kind
def test_known_targets_give_what_the_steps_give(name, kind):
    model = make(name, kind)
    source, target, _ = batch()
    memory, state = model.decoder.prepare(model.encoder(source))
    features, weights = model.decoder(target, memory, state)
    for position in range(target.shape[1]):
        outcome = model.decoder.step(target[:, position : position + 1], memory, state)
        close(outcome.features[:, 0], features[:, position])
        close(outcome.weights[:, 0], weights[:, position])
        tf.nest.assert_same_structure(outcome.state, state)
        state = outcome.state
    assert (state.place.numpy() == target.shape[1]).all()


@everywhere
@every_kind
def test_weights_of_known_targets_are_the_equations_of_what_was_asked(name, kind, monkeypatch):
    """The queries that a decoder asks with, at the places they have, answered by the reference."""
    model = make(name, kind)
    asked = []
    attend_ = model.decoder.attention.attend

    def spy(query, memory, place=None, training=False):
        asked.append((query.numpy(), np.broadcast_to(place, query.shape[:2])))
        return attend_(query, memory, place, training)

    monkeypatch.setattr(model.decoder.attention, "attend", spy)
    source, target, _ = batch()
    encoded = model.encoder(source)
    _, weights = model.decoder(target, *model.decoder.prepare(encoded))
    query, place = (np.concatenate(parts, 1) for parts in zip(*asked, strict=True))
    np.testing.assert_array_equal(place, [range(target.shape[1])] * len(target))
    options = KINDS[kind]
    trained = [variable.numpy() for variable in model.decoder.attention.trainable_variables]
    lengths = [length + 1 for length in SOURCE_LENGTHS]
    _, wanted = attend(
        options["score"],
        query,
        encoded.memory.numpy(),
        lengths,
        trained,
        kind=options.get("kind", "soft"),
        place=place,
        window=options.get("window"),
        heads=options.get("heads"),
    )
    close(weights, wanted)


@everywhere
@every_kind
def test_in_graphs_of_any_sizes_targets_are_forced_and_searched_as_outside(name, kind):
    model = make(name, kind)
    searches = [search_options(search) for search in ("greedy", "beam")]

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3)
    def force(*given):
        return model.force(*given)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def translate(source):
        return [model.translate(source, options) for options in searches]

    source, target, labels = batch()
    close(force(source, target, labels), model.force(source, target, labels))
    for options, found, empty in zip(
        searches, translate(source), translate(tf.zeros([0, 3], tf.int32)), strict=True
    ):
        assert empty.ids.shape[:2] == (0, options.nbest)
        for rank in range(options.nbest):
            labels = found.ids[:, rank]
            forced = force(source, shifted(labels), labels)
            total = tf.reduce_sum(forced.log_probabilities, 1)
            done = found.lengths[:, rank] > 0
            close(found.log_probabilities[:, rank][done], total[done])
            penalty = length_penalty(found.lengths[:, rank], options.length_penalty)
            close(found.scores[:, rank][done], (total / penalty)[done])


@everywhere
@every_kind
def test_hypotheses_of_a_beam_keep_their_places(name, kind):
    """Each of K words reads the state of its own hypothesis and asks at its own place."""
    model = make(name, kind)
    memory, state = model.decoder.prepare(model.encoder(sentences(SOURCE_LENGTHS)))
    tokens = tf.constant([[4, 5, 6], [6, 5, 4], [7, 4, 4]])
    wide = tf.nest.map_structure(lambda part: tf.repeat(part, 3, 1), state)
    wide = wide._replace(place=tf.constant([[0, 1, 4]] * 3))
    together = model.decoder.step(tokens, memory, wide)
    for hypothesis in range(3):
        own = lambda part, at=hypothesis: part[:, at : at + 1]  # noqa: E731
        alone = model.decoder.step(own(tokens), memory, tf.nest.map_structure(own, wide))
        close(alone, tf.nest.map_structure(own, together))
    np.testing.assert_array_equal(together.state.place, wide.place + 1)


@every_kind
def test_gradients_reach_every_weight(kind):
    model = make("luong-fed", kind)
    source, target, labels = batch()
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = model.loss_sums({"source": source, "target": target}, labels, tf.constant([1, 2]))
    for gradient, variable in zip(
        tape.gradient(loss.loss, variables), model.trainable_variables, strict=True
    ):
        assert gradient is not None, variable.path
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()
        assert tf.convert_to_tensor(gradient).numpy().any(), variable.path


def test_attention_that_draws_nothing_adds_nothing_to_the_loss():
    model = make("luong", "soft")
    source, target, _ = batch()
    assert model.read({"source": source, "target": target}, training=True).extra_loss is None
    attention = model.decoder.attention
    prepared = attention.prepare(random_tensor(1, 3, 4), mask_of([3], 3))
    draw = attention.attend(random_tensor(1, 2, 3), prepared, training=True).draw
    assert not draw.log_probability.numpy().any() and not draw.entropy.numpy().any()
    assert attention.extra_loss(draw, tf.ones([1, 2]), tf.ones([1, 2])) == 0.0
