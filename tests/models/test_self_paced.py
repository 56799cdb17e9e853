"""Weights of self-paced learning against what they minimise."""

import numpy as np
import pytest
import tensorflow as tf

from models.self_paced import SelfPaced
from models.sequence_model import Moment
from tests.models.examples import VOCABULARY, make_model, random_ids, sentences, shifted

LOSSES = np.array([0.0, 0.7, 1.9, 2.0, 5.0], np.float32)
GRID = np.linspace(0.0, 1.0, 1001)


def weights(kind, threshold=2.0):
    return SelfPaced(kind).weights(tf.constant(LOSSES), threshold).numpy()


def test_hard_weights():
    assert weights("hard").tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "regulariser"), [("hard", lambda v: -v), ("soft", lambda v: v**2 / 2 - v)]
)
def test_weights_minimise_their_objective(kind, regulariser):
    """`v L + λ f(v)` over a grid of v (Kumar et al. 2010, eq. 3; Jiang et al. 2014)."""
    for loss, weight in zip(LOSSES, weights(kind), strict=True):
        objective = GRID * loss + 2.0 * regulariser(GRID)
        assert weight * loss + 2.0 * regulariser(weight) <= objective.min() + 1e-6


def test_the_threshold_grows_by_the_epoch_and_stays_finite():
    pace = SelfPaced(threshold=2.0, growth=1.5)
    assert [float(pace.threshold_at(epoch)) for epoch in range(3)] == pytest.approx([2, 3, 4.5])
    assert np.isfinite(float(pace.threshold_at(10_000)))
    for kind in ("hard", "soft"):
        far = SelfPaced(kind).threshold_at(10_000)
        np.testing.assert_allclose(SelfPaced(kind).weights(tf.constant(LOSSES), far), 1.0)


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_no_gradient_flows_through_the_weights(kind):
    losses = tf.constant(LOSSES)
    with tf.GradientTape() as tape:
        tape.watch(losses)
        pace = SelfPaced(kind).weights(losses, 2.0)
        total = tf.reduce_sum(pace * losses)
    np.testing.assert_array_equal(tape.gradient(total, losses), pace)


def paced_model(kind, threshold, drop_pads=True):
    model = make_model("luong", scale=1.0)
    model.self_paced = SelfPaced(kind, threshold, growth=2.0)
    model.drop_pads = drop_pads
    return model


LABELS = random_ids([3, 5, 0, 1], VOCABULARY, seed=1)
INPUTS = {"source": sentences([4, 2, 0, 3]), "target": shifted(LABELS)}


def reference_sums(model, kind, threshold):
    """Loss, words, examples and what is kept of them, an example at a time."""
    logits = model(INPUTS).numpy().astype(np.float64)
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
        logits, LABELS.numpy()[..., np.newaxis], -1
    ).squeeze(-1)
    loss = words = examples = kept = 0.0
    for row, label in zip(losses, LABELS.numpy(), strict=True):
        real = label != 0
        if not real.any():
            continue
        mean = row[real].mean()
        weight = float(mean < threshold) if kind == "hard" else max(0.0, 1.0 - mean / threshold)
        loss += weight * row[real].sum()
        words += weight * real.sum()
        examples += 1
        kept += weight
    return loss, words, examples, kept


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("drop_pads", [True, False])
@pytest.mark.parametrize("epoch", [0, 1, 9])
def test_loss_sums_are_weighed_by_the_example(kind, drop_pads, epoch):
    model = paced_model(kind, threshold=3.5, drop_pads=drop_pads)
    moment = Moment(tf.constant(0, tf.int64), tf.constant(epoch, tf.int64))
    sums = model.loss_sums(INPUTS, LABELS, tf.constant([0, 1]), moment=moment)
    expected = reference_sums(model, kind, 3.5 * 2.0**epoch)
    found = [float(each) for each in (sums.loss, sums.tokens, sums.examples, sums.kept)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    if kind == "hard":
        assert (sums.kept < sums.examples) == (epoch == 0)
        assert sums.kept > 0


def test_examples_that_do_not_count_have_no_part_in_the_gradient():
    model = paced_model("hard", threshold=3.5)
    moment = Moment(tf.constant(0, tf.int64), tf.constant(0, tf.int64))
    kernel = model.projection.kernel.value

    def gradient(inputs, labels, moment):
        with tf.GradientTape() as tape:
            loss = model.loss_sums(inputs, labels, tf.constant([0, 1]), moment=moment).loss
        return tape.gradient(loss, kernel).numpy()

    parts = []
    for row in (0, 1, 3):
        one = {name: values[row : row + 1] for name, values in INPUTS.items()}
        labels = LABELS[row : row + 1]
        words = int(np.count_nonzero(labels))
        loss = float(model.loss_sums(one, labels, tf.constant([0, 1])).loss) / words
        if loss < 3.5:
            parts.append(gradient(one, labels, None))
    assert 0 < len(parts) < 3
    np.testing.assert_allclose(gradient(INPUTS, LABELS, moment), sum(parts), rtol=1e-4, atol=1e-5)
    # Validation weighs nothing.
    plain = model.loss_sums(INPUTS, LABELS, tf.constant([0, 1]), training=False, moment=moment)
    assert float(plain.tokens) == np.count_nonzero(LABELS) and float(plain.examples) == 0.0
