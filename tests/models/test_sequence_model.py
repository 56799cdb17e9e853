import keras
import numpy as np
import pytest
import tensorflow as tf

from models.losses import FullSoftmax, NoiseContrastiveEstimation
from models.translation import TranslationModel
from tests.models.examples import VOCABULARY, close, make_model, sentences, shifted
from tests.models.reference.losses import cross_entropy

SEED = tf.constant([1, 2], tf.int32)
COUNTS = np.arange(VOCABULARY)
LOSSES = {
    "full": FullSoftmax(),
    "smoothed": FullSoftmax(0.2),
    "nce": NoiseContrastiveEstimation(COUNTS, 5),
}


def batch(target_lengths=(3, 1, 2)):
    labels = sentences(list(target_lengths), seed=5)
    return {"source": sentences([2, 4, 1]), "target": shifted(labels)}, labels


def copy_task(pairs):
    """Sources of one to three words and their copies."""
    lengths = np.random.default_rng(0).integers(1, 4, pairs)
    labels = sentences(list(lengths), seed=1, positions=4)
    return {"source": labels, "target": shifted(labels)}, labels


def test_sums_count_words_hits_and_losses_without_pads():
    model = make_model()
    inputs, labels = batch()
    sums = model.loss_sums(inputs, labels, SEED)
    words = labels.numpy().reshape(-1)
    logits = model(inputs).numpy().reshape(-1, VOCABULARY)[words != 0]
    words = words[words != 0]
    np.testing.assert_allclose(sums.loss, cross_entropy(logits, words).sum(), rtol=1e-5)
    assert sums.tokens == sums.counted == len(words) == 9
    assert sums.correct == (logits.argmax(-1) == words).sum()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["luong", "bahdanau"])
def test_dropping_pads_before_the_projection_changes_no_sum_and_no_gradient(name, loss):
    model = make_model(name)
    model.loss_function = LOSSES[loss]
    inputs, labels = batch()
    variables = [v.value for v in model.trainable_variables]
    outcomes = []
    for model.drop_pads in (True, False):
        with tf.GradientTape() as tape:
            sums = model.loss_sums(inputs, labels, SEED)
        found = tape.gradient(sums.loss, variables, unconnected_gradients="zero")
        outcomes.append((tuple(sums), [tf.convert_to_tensor(g) for g in found]))
    close(*outcomes)


@pytest.mark.parametrize("drop_pads", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_labels_of_pads_alone_cost_nothing(loss, drop_pads):
    model = make_model()
    model.loss_function, model.drop_pads = LOSSES[loss], drop_pads
    inputs, labels = batch()
    sums = model.loss_sums(inputs, tf.zeros_like(labels), SEED)
    assert [float(part) for part in sums] == [0.0] * len(sums)


@pytest.mark.parametrize("loss", LOSSES)
def test_outside_training_the_plain_full_softmax_is_used(loss):
    model = make_model()
    plain = model.loss_sums(*batch(), SEED)
    model.loss_function = LOSSES[loss]
    close(tuple(model.loss_sums(*batch(), SEED, training=False)), tuple(plain), 1e-6)
    assert (model.loss_sums(*batch(), SEED).loss != plain.loss) == (loss != "full")


def test_a_loss_without_predictions_counts_none():
    model = make_model()
    model.loss_function = LOSSES["nce"]
    sums = model.loss_sums(*batch(), SEED)
    assert sums.tokens == 9 and sums.counted == sums.correct == 0.0


def test_dropout_only_in_training():
    model = make_model(dropout=0.5)
    inputs, labels = batch()
    still = model.loss_sums(inputs, labels, SEED, training=False).loss
    assert model.loss_sums(inputs, labels, SEED, training=False).loss == still
    assert model.loss_sums(inputs, labels, SEED, training=True).loss != still


def small_model(**options):
    model = TranslationModel(
        VOCABULARY,
        VOCABULARY,
        embedding_size=8,
        encoder={"units": 8, "bidirectional": True},
        decoder={"units": 16},
        **options,
    )
    model.build()
    return model


@pytest.mark.parametrize("loss", ["full", "nce"])
def test_fit_lowers_the_loss_of_a_copy_task(loss):
    model = small_model()
    model.loss_function = LOSSES[loss]
    inputs, labels = copy_task(64)
    model.compile(keras.optimizers.Adam(0.02))
    before = model.evaluate(inputs, labels, batch_size=16, verbose=0, return_dict=True)
    history = model.fit(inputs, labels, batch_size=16, epochs=20, verbose=0).history["loss"]
    after = model.evaluate(inputs, labels, batch_size=16, verbose=0, return_dict=True)
    assert history[-1] < 0.8 * history[0]
    assert after["loss"] < 0.8 * before["loss"]
    assert after["accuracy"] > before["accuracy"] + 0.2


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_fit_works_in_half_precision(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = small_model()
    finally:
        keras.config.set_dtype_policy(before)
    inputs, labels = copy_task(32)
    model.compile(keras.optimizers.Adam(0.02))
    history = model.fit(inputs, labels, batch_size=16, epochs=6, verbose=0).history["loss"]
    assert np.isfinite(history).all() and history[-1] < 0.9 * history[0]


def test_fit_takes_batches_that_differ_in_length():
    inputs, labels = copy_task(24)

    def batches():
        for first, width in [(0, 3), (8, 4), (16, 2)]:
            rows = slice(first, first + 8)
            yield {k: v[rows, :width] for k, v in inputs.items()}, labels[rows, :width]

    model = small_model()
    model.compile("adam")
    history = model.fit(batches(), steps_per_epoch=3, verbose=0, shuffle=False).history["loss"]
    assert 0.0 < history[0] < 2.0 * np.log(VOCABULARY)


def test_steps_of_fit_draw_different_noise():
    """The seed of a step is the optimizer's count, so no two steps share their noise words."""
    model = make_model()
    seeds = []

    def spy(features, labels, projection, seed):
        seeds.append(seed.numpy().tolist())
        return FullSoftmax()(features, labels, projection, seed)

    model.loss_function = spy
    model.compile("sgd", run_eagerly=True)
    model.fit(*batch(), batch_size=1, verbose=0)
    assert len(seeds) == len({tuple(seed) for seed in seeds}) == 3


def test_evaluate_means_over_the_words_of_all_batches():
    model = make_model()
    model.compile("sgd")
    inputs, labels = batch()
    sums = model.loss_sums(inputs, labels, SEED, training=False)
    for batch_size in (1, 2, 3):
        found = model.evaluate(inputs, labels, batch_size, verbose=0, return_dict=True)
        np.testing.assert_allclose(found["loss"], sums.loss / sums.tokens, rtol=1e-5)
        np.testing.assert_allclose(found["accuracy"], sums.correct / sums.tokens, rtol=1e-5)


def test_fit_reports_the_mean_over_the_words_of_an_epoch():
    model = make_model()
    model.compile(keras.optimizers.SGD(0.0))
    inputs, labels = batch()
    sums = model.loss_sums(inputs, labels, SEED)
    history = model.fit(inputs, labels, batch_size=1, verbose=0).history
    np.testing.assert_allclose(history["loss"], [sums.loss / sums.tokens], rtol=1e-5)
    np.testing.assert_allclose(history["accuracy"], [sums.correct / sums.tokens], rtol=1e-5)
