import keras
import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.losses import NoiseContrastiveEstimation
from models.search.hypotheses import SearchOptions, length_penalty
from models.special_ids import BEGIN_ID, END_ID, PAD_ID
from models.translation import TranslationModel
from tests.models.examples import (
    MODELS,
    VOCABULARY,
    close,
    make_model,
    sentences,
    shifted,
)
from tests.models.reference.gradients import as_arrays, assert_same_loss_and_gradients
from tests.models.reference.losses import cross_entropy, log_softmax
from tests.models.reference.search import beam, greedy
from tests.models.reference.translation import translation_logits, variables_by_part

SOURCE_LENGTHS, TARGET_LENGTHS = [2, 4, 1], [3, 1, 2]
SEED = tf.constant([1, 2], tf.int32)

every_model = pytest.mark.parametrize("name", MODELS)
both_searches = pytest.mark.parametrize("kind", ["greedy", "beam"])


def batch():
    """Inputs and labels of three pairs of unequal lengths."""
    labels = sentences(TARGET_LENGTHS, seed=5)
    return {"source": sentences(SOURCE_LENGTHS), "target": shifted(labels)}, labels


def search_options(kind="beam", **options):
    chosen = {"beam_size": 3, "max_length_factor": 1.5, "max_length_extra": 2, **options}
    return SearchOptions(kind=kind, **chosen)


def without_marks(logits):
    """Log probabilities of logits among words that a translation may hold: no pad, no begin."""
    bound = np.array(logits, np.float64)
    bound[..., [PAD_ID, BEGIN_ID]] = -np.inf
    return log_softmax(bound)


def silence_marks(model):
    """Make pads and begin marks as unlikely as in a trained model."""
    rows = tf.constant([[PAD_ID], [BEGIN_ID]])
    model.projection.bias.assign(
        tf.tensor_scatter_nd_update(model.projection.bias.value, rows, [-50.0, -50.0])
    )


def reference_log_probabilities(model, source):
    """What follows a prefix as translation of one source row, by the NumPy model."""
    arrays = as_arrays(variables_by_part(model))

    def log_probabilities(words):
        target = np.array([[BEGIN_ID, *words]])
        return without_marks(translation_logits(model.options, source, target, arrays)[0, -1])

    return log_probabilities


@pytest.mark.usefixtures("float64")
@every_model
def test_logits_are_those_of_the_equations(name):
    model = make_model(name)
    inputs, _ = batch()
    logits = model(inputs)
    assert logits.dtype == tf.float32
    arrays = as_arrays(variables_by_part(model))
    source, target = inputs["source"].numpy(), inputs["target"].numpy()
    close(logits, translation_logits(model.options, source, target, arrays))


@pytest.mark.usefixtures("float64")
@every_model
def test_gradients_of_the_loss_are_those_of_the_equations(name):
    """Of every weight, through projection, attention, decoder, bridge and encoder."""
    model = make_model(name)
    inputs, labels = batch()
    source, target, words = (each.numpy() for each in (*inputs.values(), labels))

    def reference(arrays):
        logits = translation_logits(model.options, source, target, arrays)
        real = words.reshape(-1) != 0
        return cross_entropy(logits.reshape(-1, VOCABULARY)[real], words.reshape(-1)[real]).sum()

    variables = variables_by_part(model)
    assert sum(map(len, variables.values())) == len(model.trainable_variables)
    loss = lambda: model.loss_sums(inputs, labels, SEED).loss  # noqa: E731
    assert_same_loss_and_gradients(loss, variables, reference)


@every_model
def test_padding_and_the_rest_of_the_batch_change_no_logit(name):
    model = make_model(name)
    inputs, labels = batch()
    logits = model(inputs).numpy()
    padded = model({key: tf.pad(ids, [[0, 0], [0, 3]]) for key, ids in inputs.items()}).numpy()
    for row, (source, target) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)):
        own = slice(row, row + 1)
        alone = model(
            {
                "source": inputs["source"][own, : source + 1],
                "target": inputs["target"][own, : target + 1],
            }
        )
        close(padded[row, : target + 1], logits[row, : target + 1], 1e-6)
        close(alone[0], logits[row, : target + 1], 1e-6)


@every_model
def test_forced_log_probabilities_are_those_of_the_logits(name):
    model = make_model(name)
    inputs, labels = batch()
    forced = model.force(inputs["source"], inputs["target"], labels)
    wanted = without_marks(model(inputs))
    wanted = np.take_along_axis(wanted, labels.numpy()[..., np.newaxis], -1)[..., 0]
    close(forced.log_probabilities, np.where(labels != PAD_ID, wanted, 0.0), 1e-6)
    real = inputs["source"].numpy() != 0
    assert (forced.weights.numpy() * ~real[:, np.newaxis] == 0.0).all()
    np.testing.assert_allclose(tf.reduce_sum(forced.weights, -1), 1.0, rtol=1e-6)


@every_model
def test_the_sum_of_losses_is_the_forced_log_probability(name):
    model = make_model(name)
    silence_marks(model)
    inputs, labels = batch()
    forced = model.force(inputs["source"], inputs["target"], labels)
    sums = model.loss_sums(inputs, labels, SEED, training=False)
    np.testing.assert_allclose(sums.loss, -tf.reduce_sum(forced.log_probabilities), rtol=1e-5)


@pytest.mark.usefixtures("float64")
@every_model
@both_searches
def test_translations_are_what_a_search_over_the_equations_finds(name, kind):
    model = make_model(name, scale=1.0)
    options = search_options(kind)
    source = sentences([2, 1])
    found = model.translate(source, options)
    for row, limit in enumerate([5, 3]):  # 1.5 words a source word, and two
        function = reference_log_probabilities(model, source[row : row + 1].numpy())
        if kind == "greedy":
            best = greedy(function, limit, options.length_penalty, END_ID)
        else:
            shape = (options.beam_size, limit, options.length_penalty, 1, END_ID)
            (best,), _ = beam(function, *shape)
        words = found.ids[row, 0, : found.lengths[row, 0]].numpy()
        assert tuple(words) == best.words
        close(found.scores[row, 0], np.array(best.score))
        close(found.log_probabilities[row, 0], np.array(best.log_probability))


@every_model
@pytest.mark.parametrize(("power", "weight"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.7)])
def test_a_score_is_the_forced_log_probability_over_the_penalty_and_coverage(name, power, weight):
    model = make_model(name, scale=1.0)
    source = sentences(SOURCE_LENGTHS)
    options = search_options(nbest=3, length_penalty=power, coverage_penalty=weight)
    found = model.translate(source, options)
    for rank in range(3):
        labels = found.ids[:, rank]
        forced = model.force(source, shifted(labels), labels)
        total = tf.reduce_sum(forced.log_probabilities, 1)
        close(found.log_probabilities[:, rank], total)
        attention = (forced.weights.numpy() * (labels.numpy() != 0)[:, :, np.newaxis]).sum(1)
        covered = np.where(source.numpy() != 0, np.log(np.clip(attention, 1e-6, 1.0)), 0.0).sum(1)
        penalty = length_penalty(found.lengths[:, rank], power)
        close(found.scores[:, rank], total / penalty + weight * covered)


@every_model
@both_searches
def test_a_sentence_translates_alone_as_it_does_in_a_batch(name, kind):
    model = make_model(name, scale=1.0)
    source = sentences(SOURCE_LENGTHS, positions=9)
    options = search_options(kind, nbest=1 if kind == "greedy" else 3)
    together = model.translate(source, options)
    for row, length in enumerate(SOURCE_LENGTHS):
        alone = model.translate(source[row : row + 1, : length + 1], options)
        longest = alone.ids.shape[2]
        np.testing.assert_array_equal(alone.ids[0], together.ids[row, :, :longest])
        np.testing.assert_array_equal(alone.lengths[0], together.lengths[row])
        close(alone.scores[0], together.scores[row])


@every_model
def test_a_beam_of_one_translates_as_greedy_does(name):
    model = make_model(name, scale=1.0)
    source = sentences(SOURCE_LENGTHS)
    one = model.translate(source, search_options(beam_size=1))
    other = model.translate(source, search_options("greedy"))
    close(one, other, 1e-6)


@both_searches
def test_no_translation_holds_a_pad_or_a_begin_mark(kind):
    model = make_model(scale=1.0)
    bias = model.projection.bias.numpy()
    bias[[PAD_ID, BEGIN_ID]] = 50.0
    model.projection.bias.assign(bias)
    found = model.translate(sentences(SOURCE_LENGTHS), search_options(kind))
    for words, length in zip(found.ids[:, 0].numpy(), found.lengths[:, 0].numpy(), strict=True):
        assert not {PAD_ID, BEGIN_ID} & set(words[:length].tolist())
    assert (found.scores.numpy() > -20.0).all()


@both_searches
def test_a_source_without_words_translates_to_nothing(kind):
    source = sentences([0, 2, 0])
    source = tf.concat([source, tf.zeros([1, source.shape[1]], tf.int32)], 0)  # not even an end
    found = make_model().translate(source, search_options(kind))
    assert found.lengths[:, 0].numpy()[[0, 2, 3]].tolist() == [1, 1, 1]
    assert found.ids[:, 0, 0].numpy()[[0, 2, 3]].tolist() == [END_ID] * 3
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize(
    ("name", "kind"), [("luong", "greedy"), ("luong-fed", "beam"), ("bahdanau", "beam")]
)
def test_in_a_graph_any_batch_is_translated_as_outside_and_an_empty_one_too(name, kind):
    model = make_model(name, scale=1.0)
    specs = [tf.TensorSpec([None, None], tf.int32)]
    options = search_options(kind)
    translate = tf.function(lambda source: model.translate(source, options), input_signature=specs)
    source = sentences(SOURCE_LENGTHS)
    close(translate(source), model.translate(source, options))
    for positions in (0, 4):
        found = translate(tf.zeros([0, positions], tf.int32))
        assert found.ids.shape[:2] == (0, 1) and found.scores.shape == (0, 1)


@every_model
def test_in_a_graph_an_empty_batch_can_be_forced(name):
    force = tf.function(
        make_model(name).force, input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3
    )
    for positions in (0, 4):
        forced = force(*[tf.zeros([0, positions], tf.int32)] * 3)
        assert tf.reduce_sum(forced.log_probabilities, 1).shape == (0,)
        assert forced.weights.shape[0] == 0


@pytest.mark.usefixtures("mixed_bfloat16")
@every_model
def test_under_bfloat16_nothing_becomes_nan_and_what_counts_is_float32(name):
    model = make_model(name)
    source = sentences([*SOURCE_LENGTHS, 0], positions=8)
    found = model.translate(source, search_options(nbest=2))
    assert found.scores.dtype == found.log_probabilities.dtype == tf.float32
    assert not np.isnan(found.scores).any()
    labels = sentences([3, 1, 2, 0], seed=5)
    with tf.GradientTape() as tape:
        inputs = {"source": source, "target": shifted(labels)}
        sums = model.loss_sums(inputs, labels, SEED)
    assert sums.loss.dtype == tf.float32 and model.features(inputs).dtype == tf.bfloat16
    for gradient in tape.gradient(sums.loss, [v.value for v in model.trainable_variables]):
        assert gradient is None or np.isfinite(tf.convert_to_tensor(gradient)).all()


@pytest.mark.usefixtures("mixed_bfloat16")
@every_model
def test_under_bfloat16_logits_stay_near_those_of_single_precision(name):
    rounded = make_model(name)
    keras.config.set_dtype_policy("float32")
    exact = make_model(name)
    exact.set_weights(rounded.get_weights())
    inputs, _ = batch()
    np.testing.assert_allclose(rounded(inputs), exact(inputs), atol=0.05)


@pytest.mark.parametrize(
    ("name", "loss"), [("luong", "full"), ("luong", "nce"), ("bahdanau", "full")]
)
def test_compiled_by_xla_loss_and_gradients_are_the_same(name, loss, monkeypatch):
    model = make_model(name)
    model.drop_pads = False
    if loss == "nce":
        # XLA's random numbers are others than TensorFlow's for the same seed.
        even = lambda shape, seed, dtype: tf.linspace(  # noqa: E731
            tf.constant(0.01, dtype), 0.99, shape[0]
        )
        monkeypatch.setattr(tf.random, "stateless_uniform", even)
        model.loss_function = NoiseContrastiveEstimation(np.arange(VOCABULARY), 5)
    variables = [variable.value for variable in model.trainable_variables]

    def gradients(inputs, labels):
        with tf.GradientTape() as tape:
            sums = model.loss_sums(inputs, labels, SEED)
        found = tape.gradient(sums.loss, variables)
        return sums.loss, [tf.convert_to_tensor(g) for g in found if g is not None]

    close(tf.function(gradients, jit_compile=True)(*batch()), gradients(*batch()))


@every_model
def test_a_model_made_from_its_configuration_is_equal(name):
    model = make_model(name, dropout=0.25, initializer_range=0.3)
    again = TranslationModel.from_config(model.get_config())
    again.build()
    again.set_weights(model.get_weights())
    assert again.get_config() == model.get_config()
    inputs, _ = batch()
    close(again(inputs), model(inputs), 0.0)


@every_model
def test_a_saved_model_loads_without_its_class_being_named(name, tmp_path):
    model = make_model(name)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is TranslationModel
    inputs, _ = batch()
    close(again(inputs), model(inputs), 0.0)
    options = search_options(nbest=2)
    close(
        again.translate(inputs["source"], options), model.translate(inputs["source"], options), 0.0
    )


def test_input_feeding_belongs_to_luong():
    with pytest.raises(UserError, match=r"model\.decoder\.input_feeding .*'luong'.*'bahdanau'"):
        make_model("bahdanau", decoder={"kind": "bahdanau", "input_feeding": True})


def test_dot_attention_over_a_memory_of_another_width_is_refused():
    with pytest.raises(UserError, match=r"model\.attention\.score 'dot'.* 3 .* 4"):
        make_model("luong", attention={"score": "dot", "units": None})


def test_a_copy_bridge_between_unequal_sides_is_refused():
    with pytest.raises(UserError, match=r"model\.decoder\.bridge 'copy'.*1 layers of 4.*1 of 3"):
        make_model("luong", decoder={**MODELS["luong"]["decoder"], "bridge": "copy"})


def test_more_translations_than_the_beam_holds_are_refused():
    with pytest.raises(UserError, match=r"search\.beam_size.*export\.nbest"):
        make_model().translate(sentences([1]), search_options(nbest=4))


def test_a_model_keeps_its_precision_wherever_it_is_rebuilt():
    import keras

    options = {"encoder": {"units": 4, "layers": 2}, "decoder": {"units": 8, "layers": 2}}
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        config = TranslationModel(11, 13, embedding_size=6, **options).get_config()
    finally:
        keras.config.set_dtype_policy("float32")
    model = TranslationModel.from_config(config)
    model.build()
    layers = [layer for layer in model._flatten_layers(include_self=False) if layer.weights]
    assert {layer.compute_dtype for layer in layers} == {"bfloat16"}
    inputs = {"source": np.array([[4, 5, 3]], np.int32), "target": np.array([[2, 4]], np.int32)}
    assert model(inputs).dtype == "float32"
