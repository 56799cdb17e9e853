"""A training step: what it applies, whether gradients are dense or rows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.embedding import Embedding
from models.losses import SAMPLED_LOSSES, FullSoftmax
from models.projection import VocabularyProjection
from models.sequence_model import SequenceModel
from pipeline.experiment import ClipOptions
from pipeline.train.lazy_adam import LazyAdam
from pipeline.train.steps import Steps

VOCABULARY, FEATURES, RATE = 12, 3, 0.1
# The word 5 comes three times, and the words 9 to 11 never.
SOURCE = np.array([[4, 5, 5, 6], [7, 5, 8, 0]], np.int32)
LABELS = np.array([[5, 5, 6, 3], [5, 8, 3, 0]], np.int32)
COUNTS = np.array([0, 1, 0, 9, 5, 9, 3, 2, 2, 1, 0, 0])
LOSSES = {
    "full": FullSoftmax(),
    **{name: kind(COUNTS, 3) for name, kind in SAMPLED_LOSSES.items()},
}
CLIPS = [
    ClipOptions(kind="none"),
    ClipOptions(kind="value", threshold=0.01),
    ClipOptions(kind="norm", threshold=0.02),
    ClipOptions(kind="global_norm", threshold=0.05),
]

every_loss = pytest.mark.parametrize("loss", LOSSES)
every_clip = pytest.mark.parametrize("clip", CLIPS, ids=[clip.kind for clip in CLIPS])


class Words(SequenceModel):
    """Predicts a word from the one before it, as a bigram model does."""

    def __init__(self):
        super().__init__()
        self.embedding = Embedding(VOCABULARY, FEATURES, dtype=self.dtype_policy)
        self.projection = VocabularyProjection(VOCABULARY, FEATURES, dtype=self.dtype_policy)

    def build(self, *_):
        self.embedding.build((None, None))
        self.projection.build()
        self.built = True

    def features(self, inputs, training=False):
        return self.embedding(inputs["source"])


def make(loss):
    model = Words()
    model.build()
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(0.0, 0.5, w.shape) for w in model.get_weights()])
    model.loss_function = LOSSES[loss]
    return model


def run(optimizer, loss="full", clip=CLIPS[-1], steps=1):
    """The weights after some steps, and the last gradient norm."""
    model = make(loss)
    optimizer.build(model.trainable_variables)
    compiled = Steps(model, optimizer, clip, 1, tf.distribute.get_strategy())
    batch = {"source": tf.constant(SOURCE)}, tf.constant(LABELS)
    for step in range(steps):
        report = compiled.train(batch, tf.constant(step, tf.int64))
    return model.get_weights(), float(report.gradient_norm)


def clipped(gradients, clip):
    """Clipping of dense gradients, in NumPy."""
    limit = clip.threshold
    norm = np.sqrt(sum((each**2).sum() for each in gradients))
    if clip.kind == "value":
        return [np.clip(each, -limit, limit) for each in gradients], norm
    if clip.kind == "norm":
        return [each * min(1.0, limit / np.linalg.norm(each)) for each in gradients], norm
    if clip.kind == "global_norm":
        return [each * min(1.0, limit / norm) for each in gradients], norm
    return gradients, norm


def dense_gradients(loss):
    """Dense gradients of the mean loss of the first step."""
    model = make(loss)
    with tf.GradientTape() as tape:
        seed = tf.constant([1, 0])
        sums = model.loss_sums({"source": tf.constant(SOURCE)}, tf.constant(LABELS), seed)
        mean = sums.loss / sums.tokens
    found = tape.gradient(mean, [variable.value for variable in model.trainable_variables])
    return [tf.convert_to_tensor(each).numpy() for each in found]


@pytest.mark.parametrize("loss", ["full", "sampled"])
@every_clip
def test_a_step_of_gradient_descent_is_the_clipped_mean_gradient(loss, clip):
    """SGD takes rows: the norm, and each bound, are of rows that are summed first."""
    found, norm = run(keras.optimizers.SGD(1.0), loss, clip)
    wanted, norm_wanted = clipped(dense_gradients(loss), clip)
    assert norm == pytest.approx(norm_wanted, rel=1e-5)
    for weights, before, gradient in zip(found, make(loss).get_weights(), wanted, strict=True):
        np.testing.assert_allclose(weights, before - gradient, rtol=1e-5, atol=1e-6)


@every_loss
def test_adam_takes_the_step_it_takes_with_dense_gradients(loss):
    model = make(loss)
    gradients, norm_wanted = clipped(dense_gradients(loss), CLIPS[-1])
    keras.optimizers.Adam(RATE).apply(
        [tf.constant(each) for each in gradients], model.trainable_variables
    )
    found, norm = run(keras.optimizers.Adam(RATE), loss)
    assert norm == pytest.approx(norm_wanted, rel=1e-5)
    for weights, wanted in zip(found, model.get_weights(), strict=True):
        np.testing.assert_allclose(weights, wanted, rtol=1e-4, atol=1e-5)


@every_loss
def test_the_first_step_of_lazy_adam_is_that_of_adam(loss):
    """No row has moments yet, so that none is moved that is not in the batch."""
    rows, dense = run(LazyAdam(RATE), loss), run(keras.optimizers.Adam(RATE), loss)
    assert rows[1] == pytest.approx(dense[1], rel=1e-5)
    for found, wanted in zip(rows[0], dense[0], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("loss", SAMPLED_LOSSES)
def test_lazy_adam_moves_the_rows_of_the_batch_alone(loss, precision):
    keras.config.set_dtype_policy(precision)
    try:
        optimizer = LazyAdam(RATE)
        if precision == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        found, norm = run(optimizer, loss, steps=3)
        before = make(loss).get_weights()
    finally:
        keras.config.set_dtype_policy("float32")
    assert norm > 0.0
    table, kernel, bias = (
        (after != first).reshape(VOCABULARY, -1).any(1)
        for after, first in zip(found, before, strict=True)
    )
    np.testing.assert_array_equal(np.flatnonzero(table), [4, 5, 6, 7, 8])
    np.testing.assert_array_equal(kernel, bias)
    assert kernel[[3, 5, 6, 8]].all() and not kernel.all()
    assert all(np.isfinite(each).all() for each in found)


@pytest.mark.parametrize("loss", ["full", "nce"])
def test_compiled_by_xla_lazy_adam_learns_too(loss):
    model = make(loss)
    model.drop_pads = False
    optimizer = LazyAdam(RATE)
    optimizer.build(model.trainable_variables)
    strategy = tf.distribute.get_strategy()
    compiled = Steps(model, optimizer, CLIPS[-1], 1, strategy, jit_compile=True)
    batch = {"source": tf.constant(SOURCE)}, tf.constant(LABELS)
    losses = [
        float(compiled.train(batch, tf.constant(step, tf.int64)).sums.loss) for step in range(8)
    ]
    assert losses[-1] < losses[0]


@every_clip
@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_batches_held_are_as_one_batch(optimizer, clip):
    """As rows of tables under SGD, dense under Adam."""
    wanted, norm = run(optimizer(RATE), clip=clip)
    model, used = make("full"), optimizer(RATE)
    used.build(model.trainable_variables)
    steps = Steps(model, used, clip, 1, tf.distribute.get_strategy())
    first, second = (
        ({"source": tf.constant(SOURCE[i : i + 1])}, tf.constant(LABELS[i : i + 1])) for i in (0, 1)
    )
    moment = tf.constant(0, tf.int64), tf.constant(0, tf.int64)
    held = steps.hold(first, *moment, None, tf.constant(0, tf.int64))
    report = steps.train(second, *moment, held, tf.constant(1, tf.int64))
    assert float(report.gradient_norm) == pytest.approx(norm, rel=1e-5)
    for found, expected in zip(model.get_weights(), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_batches_of_many_sizes_are_traced_once_and_learned_from_as_ever():
    spec = tf.TensorSpec([None, None], tf.int32)
    weights = []
    for expected in (None, ({"source": spec}, spec)):
        model, optimizer = make("full"), keras.optimizers.SGD(1.0)
        optimizer.build(model.trainable_variables)
        steps = Steps(model, optimizer, CLIPS[-1], 1, tf.distribute.get_strategy())
        steps.expect(expected)
        for step, (rows, words) in enumerate([(2, 4), (1, 3), (2, 2)]):
            batch = tf.constant(SOURCE[:rows, :words]), tf.constant(LABELS[:rows, :words])
            steps.train(({"source": batch[0]}, batch[1]), tf.constant(step, tf.int64))
        weights.append(model.get_weights())
        traced = steps._train.experimental_get_tracing_count()
    assert traced == 1
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
