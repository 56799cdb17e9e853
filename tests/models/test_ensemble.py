"""Several models that answer as one: the mean of what each finds probable."""

import numpy as np
import pytest
import tensorflow as tf

from models.ensemble import EnsembleModel
from models.search.hypotheses import SearchOptions, length_penalty
from models.search.sampling import Draws
from models.special_ids import BEGIN_ID, END_ID, PAD_ID
from tests.models.examples import MODELS, VOCABULARY, close, make_model, sentences, shifted
from tests.models.reference.gradients import as_arrays
from tests.models.reference.losses import log_softmax
from tests.models.reference.search import Rules, beam, greedy
from tests.models.reference.translation import translation_logits, variables_by_part

LENGTHS = [2, 4, 1]
SEED = tf.constant([1, 2], tf.int32)


def search_options(kind="beam", **options):
    chosen = {"beam_size": 3, "max_length_factor": 1.5, "max_length_extra": 2, **options}
    return SearchOptions(kind=kind, **chosen)


@pytest.fixture
def members():
    """Models of other cells, depths, decoders and attentions."""
    return [make_model(name, scale=1.0) for name in MODELS]


def logits_of_equations(members, source, target):
    """Logits of each member [N, B, T, V], by NumPy."""
    return np.stack(
        [
            translation_logits(each.options, source, target, as_arrays(variables_by_part(each)))
            for each in members
        ]
    )


def log_of_mean(logits):
    """`log 1/N Σ_n softmax(logits_n)`, [..., V] of logits [N, ..., V]."""
    with np.errstate(divide="ignore"):
        return np.log(np.exp(log_softmax(logits.astype(np.float64))).mean(0))


def batch():
    labels = sentences([3, 1, 2], seed=5)
    return {"source": sentences(LENGTHS), "target": shifted(labels)}, labels


@pytest.mark.usefixtures("float64")
def test_logits_and_loss_are_of_the_mean_of_the_equations_probabilities(members):
    inputs, labels = batch()
    ensemble = EnsembleModel(members)
    mean = log_of_mean(logits_of_equations(members, *(each.numpy() for each in inputs.values())))
    close(ensemble(inputs), mean)
    real = labels.numpy() != PAD_ID
    right = np.take_along_axis(mean, labels.numpy()[..., np.newaxis], -1)[..., 0]
    sums = ensemble.loss_sums(inputs, labels, SEED, training=False)
    close(sums.loss, -right[real].sum())
    close(sums.correct, (mean.argmax(-1) == labels.numpy())[real].sum())


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", ["greedy", "beam"])
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_what_is_found_is_what_a_search_over_the_mean_finds(members, kind, weight):
    source = sentences([2, 1])
    options = search_options(kind, coverage_penalty=weight)
    found = EnsembleModel(members).translate(source, options)
    for row, limit in enumerate([5, 3]):  # 1.5 words a source word, and two
        own = source[row : row + 1]

        def log_probabilities(words, own=own):
            logits = logits_of_equations(members, own.numpy(), np.array([[BEGIN_ID, *words]]))
            logits[..., [PAD_ID, BEGIN_ID]] = -np.inf
            return log_of_mean(logits[:, 0, -1])

        def attention(words, own=own):
            """Of the members' mean, when the word after these comes."""
            target = tf.constant([[BEGIN_ID, *words]])
            weights = [each.force(own, target, target).weights[0, -1] for each in members]
            return np.mean(weights, 0)[own.numpy()[0] != PAD_ID]

        rules = Rules(coverage=weight, attention=attention)
        if kind == "greedy":
            best = greedy(log_probabilities, limit, options.length_penalty, END_ID, rules)
        else:
            shape = (options.beam_size, limit, options.length_penalty, 1, END_ID)
            (best,), _ = beam(log_probabilities, *shape, rules=rules)
        assert tuple(found.ids[row, 0, : found.lengths[row, 0]].numpy()) == best.words
        close(found.scores[row, 0], np.array(best.score))


def test_what_is_forced_is_the_mean_of_the_members(members):
    inputs, labels = batch()
    given = (inputs["source"], inputs["target"], labels)
    forced = EnsembleModel(members).force(*given)
    alone = [each.force(*given) for each in members]
    real = labels.numpy() != PAD_ID
    mean = np.log(np.mean([np.exp(each.log_probabilities) for each in alone], 0))
    close(forced.log_probabilities, np.where(real, mean, 0.0))
    close(forced.weights, np.mean([each.weights for each in alone], 0))


def test_a_model_with_itself_is_the_model():
    model = make_model("luong-fed", scale=1.0)
    twice = EnsembleModel([model, model])
    inputs, labels = batch()
    source = inputs["source"]
    searches = [
        search_options("greedy"),
        search_options(nbest=3, coverage_penalty=0.4, min_length=1, no_repeat_ngram_size=2),
        search_options("sampling", temperature=0.8, top_k=5, seed=3),
    ]
    for options in searches:
        close(twice.translate(source, options), model.translate(source, options))
    begun = tf.constant([[5, 4], [6, 0], [0, 0]])
    close(twice.translate(source, searches[0], begun), model.translate(source, searches[0], begun))
    draws = Draws.of(searches[2], tf.constant(3))._replace(seeds=tf.constant([1, 2, 3]))
    close(twice.sample(source, searches[2], draws), model.sample(source, searches[2], draws))
    given = (source, inputs["target"], labels)
    close(twice.force(*given), model.force(*given))
    sums = [each.loss_sums(inputs, labels, SEED, training=False) for each in (twice, model)]
    close(*sums)


def test_draws_follow_the_mean(members):
    """Of many draws of a first word, its share is its probability."""
    source = tf.repeat(sentences([2]), 4000, 0)
    options = search_options("sampling", max_length_factor=0.1, max_length_extra=1)
    draws = Draws.of(options, tf.constant(4000))._replace(seeds=tf.range(4000))
    found = EnsembleModel(members).sample(source, options, draws)
    target = np.array([[BEGIN_ID]])
    logits = logits_of_equations(members, source[:1].numpy(), target)[:, 0, -1]
    logits[..., [PAD_ID, BEGIN_ID]] = -np.inf
    shares = np.bincount(found.ids[:, 0, 0], minlength=VOCABULARY) / 4000
    np.testing.assert_allclose(shares, np.exp(log_of_mean(logits)), atol=0.03)


def test_a_score_is_that_of_the_forced_words_in_a_graph(members):
    ensemble = EnsembleModel(members[::2])
    specs = [tf.TensorSpec([None, None], tf.int32)]
    options = search_options(nbest=2)
    translate = tf.function(lambda ids: ensemble.translate(ids, options), input_signature=specs)
    found = translate(sentences(LENGTHS))
    for rank in range(2):
        labels = found.ids[:, rank]
        forced = ensemble.force(sentences(LENGTHS), shifted(labels), labels)
        total = tf.reduce_sum(forced.log_probabilities, 1)
        close(found.scores[:, rank], total / length_penalty(found.lengths[:, rank], 1.0))


def test_it_holds_the_weights_of_all(members):
    held = {id(each) for each in EnsembleModel(members).weights}
    wanted = {id(weight) for each in members for weight in each.weights}
    assert held >= wanted
    assert len(held) == len(wanted)
