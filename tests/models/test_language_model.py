"""The language model against its equations, its two ways of reading, and what it writes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.language_model import LanguageModel
from models.losses import NoiseContrastiveEstimation
from models.search.greedy import greedy_search
from models.search.hypotheses import SearchLimits, SearchOptions
from models.search.sampling import Draws
from models.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from tests.models.examples import close, random_ids, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.losses import log_softmax
from tests.models.reference.recurrent import gru_step, lstm_step

VOCABULARY = 9
SEED = tf.constant([1, 2], tf.int32)
SHAPES = {
    "lstm": {"embedding_size": 3, "units": 4},
    "gru-deep": {"cell": "gru", "embedding_size": 3, "units": 4, "layers": 2, "residual": True},
    "tied": {"embedding_size": 4, "units": 4, "tie_embeddings": True},
    "window": {"architecture": "window", "window": 3, "embedding_size": 3, "units": 4},
    "bigram": {"architecture": "window", "window": 2, "embedding_size": 3, "units": 4},
}
every_shape = pytest.mark.parametrize("name", SHAPES)


def make(name="lstm", **options):
    model = LanguageModel(VOCABULARY, **{**SHAPES[name], **options})
    model.build()
    return randomize(model)


def texts(lengths, first=BEGIN_ID, seed=0):
    """Targets and labels of random words, the end mark last."""
    labels = random_ids(lengths, VOCABULARY, seed, max([*lengths, 0]) + 1).numpy()
    labels[np.arange(len(lengths)), lengths] = END_ID
    target = np.roll(labels, 1, 1)
    target[:, 0] = first
    target[labels == PAD_ID] = PAD_ID
    return tf.constant(target), tf.constant(labels)


def draws(rows, temperature=1.0, top_k=0, top_p=1.0, seed=0):
    return Draws(
        tf.fill([rows], temperature),
        tf.fill([rows], top_k),
        tf.fill([rows], top_p),
        tf.range(seed, seed + rows),
    )


def reference_loss(weights, target, labels, step, layers, residual):
    """Sum of losses of rows without pads, one word at a time."""
    loss = 0.0
    for words, wanted in zip(target, labels, strict=True):
        states = [tuple(np.zeros(4) for _ in range(2 if step is lstm_step else 1))] * layers
        for word, label in zip(words, wanted, strict=True):
            if label == PAD_ID:
                break
            below = weights["embedding"][word]
            for index in range(layers):
                states[index] = step(below, states[index], weights["layers"][index])
                output = states[index][0]
                below = output + below if residual and index else output
            logits = weights["kernel"] @ below + weights["bias"]
            loss -= log_softmax(logits)[label]
    return loss


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("name", "step"), [("lstm", lstm_step), ("gru-deep", gru_step), ("tied", lstm_step)]
)
def test_loss_and_gradients_are_those_of_the_equations(name, step):
    model = make(name)
    target, labels = texts([2, 0, 3])
    options = SHAPES[name]
    variables = {
        "layers": [list(layer.weights) for layer in model.stack.layers],
        "kernel": model.projection.kernel,
        "bias": model.projection.bias,
    }
    if model.embedding is not None:
        variables["embedding"] = model.embedding.weights[0]

    def reference(arrays):
        return reference_loss(
            {"embedding": arrays["kernel"], **arrays},
            target.numpy(),
            labels.numpy(),
            step,
            options.get("layers", 1),
            options.get("residual", False),
        )

    assert_same_loss_and_gradients(
        lambda: tf.cast(model.loss_sums({"target": target}, labels, SEED).loss, tf.float64),
        variables,
        reference,
        2e-4,  # the loss is in single precision whatever the features are
    )


@every_shape
def test_log_probabilities_are_a_distribution_over_words_that_can_be(name):
    model = make(name)
    target, _ = texts([2, 0, 3])
    totals = np.zeros(target.shape)
    for word in range(VOCABULARY):
        labels = tf.where(target == PAD_ID, PAD_ID, tf.fill(target.shape, word))
        if word not in (PAD_ID, BEGIN_ID):
            totals += np.where(
                labels == PAD_ID, 0.0, np.exp(model.log_probabilities(target, labels))
            )
    np.testing.assert_allclose(totals, np.where(target == PAD_ID, 0.0, 1.0), atol=1e-5)


@every_shape
def test_a_text_gets_alone_what_it_gets_beside_longer_ones(name):
    model = make(name)
    target, labels = texts([5, 1, 3])
    together = model.log_probabilities(target, labels).numpy()
    for row, length in enumerate([5, 1, 3]):
        alone = model.log_probabilities(
            target[row : row + 1, : length + 1], labels[row : row + 1, : length + 1]
        )
        np.testing.assert_allclose(together[row, : length + 1], alone[0], rtol=1e-5, atol=1e-6)
        assert not together[row, length + 1 :].any()


@every_shape
def test_steps_and_whole_texts_agree(name):
    model = make(name)
    target, _ = texts([4, 4])
    state = tf.nest.map_structure(lambda part: part[:, tf.newaxis], model.stack.first_state(2))
    step = model.next_word()
    never = [PAD_ID, BEGIN_ID, UNKNOWN_ID]
    whole = np.delete(model({"target": target}).numpy(), never, -1)
    for place in range(5):
        logits, state = step(target[:, place : place + 1], state)
        close(np.delete(logits[:, 0].numpy(), never, -1), whole[:, place])
        assert (logits.numpy()[..., never] < -1e8).all()


def test_no_texts():
    model = make()
    empty = tf.zeros([0, 0], tf.int32)
    assert model.log_probabilities(empty, empty).shape[0] == 0
    found = model.generate(empty, tf.zeros([0], tf.int32), draws(0))
    assert found.ids.shape[:2] == (0, 1)


@every_shape
def test_an_equal_model_is_made_from_its_configuration(name, tmp_path):
    model = make(name, stream=True, dropout=0.25)
    again = LanguageModel.from_config(model.get_config())
    again.build()
    assert again.get_config() == model.get_config()
    again.set_weights(model.get_weights())
    target, labels = texts([3, 2], END_ID)
    close(again.log_probabilities(target, labels), model.log_probabilities(target, labels))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    close(loaded({"target": target}), model({"target": target}))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@every_shape
def test_half_precision_is_close_and_gradients_are_finite(name, policy, request):
    target, labels = texts([3, 2])
    exact = make(name).log_probabilities(target, labels)
    request.getfixturevalue(policy)
    model = make(name)
    found = model.log_probabilities(target, labels)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, exact, atol=0.1)
    with tf.GradientTape() as tape:
        loss = model.loss_sums({"target": target}, labels, SEED).loss
    for gradient in tape.gradient(loss, [v.value for v in model.trainable_variables]):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_tied_embeddings_are_the_projections_rows():
    assert len(make("tied").weights) == len(make("lstm").weights) - 1
    with pytest.raises(UserError, match="set embedding_size to 4, or tie_embeddings to false"):
        make("lstm", tie_embeddings=True)


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("model.decoder.residual", {"residual": True}),
        ("model.variational_dropout", {"variational_dropout": {"inputs": 0.1}}),
    ],
)
def test_a_window_refuses_what_only_a_recurrent_model_does(key, given):
    with pytest.raises(UserError, match=f"{key} is for recurrent layers.*leave the key out"):
        make("window", **given)


def test_noise_words_train_the_same_model():
    model = make("tied")
    model.loss_function = NoiseContrastiveEstimation(np.arange(VOCABULARY), 5)
    target, labels = texts([3, 2])
    sums = model.loss_sums({"target": target}, labels, SEED)
    assert sums.loss > 0.0 and sums.counted == 0.0 and sums.tokens == 7.0


def stream_of(model, words, lengths):
    """Words [B, T] as segments of some lengths: inputs and labels."""
    target = np.concatenate([np.full([len(words), 1], END_ID), words[:, :-1]], 1)
    first = 0
    for length in lengths:
        place = slice(first, first + length)
        continues = tf.fill([len(words)], int(first > 0))
        yield {"target": tf.constant(target[:, place]), "continues": continues}, words[:, place]
        first += length


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru-deep", "window", "bigram"])
def test_segments_with_carried_state_are_the_whole_text(name, training):
    model = make(name, stream=True)
    model.carry(3)
    words = random_ids([8] * 3, VOCABULARY).numpy()
    target = np.concatenate([np.full([3, 1], END_ID), words[:, :-1]], 1)
    whole = model.features({"target": tf.constant(target)})
    for _ in range(2):  # The second time the text begins anew.
        parts = [
            model.features(inputs, training=training)
            for inputs, _ in stream_of(model, words, [3, 1, 4])
        ]
        close(tf.concat(parts, 1), whole)


def test_training_and_validation_carry_their_own_states():
    model = make(stream=True)
    model.carry(2)
    words = random_ids([6] * 2, VOCABULARY).numpy()
    (first, _), (second, _) = stream_of(model, words, [3, 3])
    model.features(first, training=True)
    expected = [np.array(each) for each in model.carried]
    model.features(first)
    model.features(second)
    for kept, before in zip(model.carried, expected, strict=True):
        np.testing.assert_array_equal(kept, before)
    assert all(each.any() for each in expected)


def test_no_gradient_goes_through_a_carried_state():
    model = make(stream=True)
    model.carry(2)
    words = random_ids([6] * 2, VOCABULARY).numpy()
    (first, _), (second, labels) = stream_of(model, words, [3, 3])
    variables = [v.value for v in model.trainable_variables]

    def gradients(over_both):
        with tf.GradientTape() as tape:
            if over_both:
                model.features(first, training=True)
            else:
                with tape.stop_recording():
                    model.features(first, training=True)
            loss = model.loss_sums(second, tf.constant(labels), SEED).loss
        return [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    close(gradients(True), gradients(False))


def test_what_a_cell_learns_to_start_from_has_a_gradient_where_states_are_carried():
    options = {"memory_rows": 5, "memory_features": 2}
    model = make(cell="ntm", cell_options=options, stream=True)
    model.carry(2)
    words = random_ids([3] * 2, VOCABULARY).numpy()
    ((begun, labels),) = stream_of(model, words, [3])
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = model.loss_sums(begun, tf.constant(labels), SEED).loss
    for gradient in tape.gradient(loss, variables):
        assert np.any(tf.convert_to_tensor(gradient))


def test_carried_states_are_no_weights():
    model = make(stream=True)
    before = len(model.weights), len(model.trainable_variables)
    model.carry(2)
    assert (len(model.weights), len(model.trainable_variables)) == before
    assert len(model.carried) == 2 and not make().carried


@every_shape
@pytest.mark.parametrize("stream", [False, True])
def test_a_continuation_is_scored_as_the_text_with_it(name, stream):
    """The score of prompt and continuation is the sum of both, words never written aside."""
    model = make(name, stream=stream)
    model.projection.bias.assign(
        tf.tensor_scatter_nd_add(model.projection.bias.value, [[UNKNOWN_ID]], [-50.0])
    )
    prompts = random_ids([3, 0, 1], VOCABULARY)
    found = model.generate(prompts, tf.constant([6, 6, 6]), draws(3))
    for row, prompt in enumerate([3, 0, 1]):
        words = [
            *prompts[row, :prompt].numpy(),
            *found.ids[row, 0, : found.lengths[row, 0]].numpy(),
        ]
        labels = tf.constant([words])
        target = tf.constant([[model.first_id, *words[:-1]]])
        scored = model.log_probabilities(target, labels)[0, prompt:]
        np.testing.assert_allclose(
            found.scores[row, 0], tf.reduce_sum(scored), rtol=1e-4, atol=1e-4
        )
        assert stream or END_ID not in words[:-1]
        assert not stream or len(words) == prompt + 6


@every_shape
def test_at_temperature_0_and_at_top_k_1_it_is_the_greedy_search(name):
    model = make(name)
    prompts, limits = random_ids([3, 0, 1, 2], VOCABULARY), tf.constant([7, 7, 7, 0])
    state, last = model._after(prompts)
    greedy = (
        greedy_search(model.next_word(), state, SearchLimits(limits), SearchOptions(), last, END_ID)
        .ids[:, 0]
        .numpy()
    )
    for options in ({"temperature": 0.0}, {"temperature": 1e-6}, {"top_k": 1}):
        found = model.generate(prompts, limits, draws(4, **options))
        lengths, ids = found.lengths[:, 0].numpy(), found.ids[:, 0].numpy()
        for row in range(4):
            np.testing.assert_array_equal(ids[row, : lengths[row]], greedy[row, : lengths[row]])
            assert lengths[row] == limits[row] or ids[row, lengths[row] - 1] == END_ID


def test_a_prompt_is_continued_alone_as_beside_others():
    model = make(stream=True)
    prompts, limits = random_ids([4, 0, 2], VOCABULARY), tf.constant([5, 9, 3])
    how = draws(3, 0.9, 3, 0.8)
    together = model.generate(prompts, limits, how)
    for row, length in enumerate([4, 0, 2]):
        part = Draws(*(each[row : row + 1] for each in how))
        alone = model.generate(prompts[row : row + 1, :length], limits[row : row + 1], part)
        size = int(alone.lengths[0, 0])
        assert size == int(together.lengths[row, 0]) == limits[row]
        np.testing.assert_array_equal(together.ids[row, 0, :size], alone.ids[0, 0, :size])


def test_it_compiles_with_unknown_sizes():
    model = make("gru-deep")
    generate = tf.function(
        lambda prompts, limits: model.generate(
            prompts, limits, Draws.of(SearchOptions(), tf.shape(limits)[0])
        ),
        input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)],
    )
    prompts, limits = random_ids([3, 1], VOCABULARY), tf.constant([4, 2])
    close(
        tuple(generate(prompts, limits)),
        tuple(model.generate(prompts, limits, Draws.of(SearchOptions(), 2))),
    )


def test_it_learns_by_fit():
    keras.utils.set_random_seed(3)
    model = LanguageModel(VOCABULARY, embedding_size=8, units=16)
    model.build()
    model.compile(optimizer=keras.optimizers.Adam(0.03))
    words = 4 + (np.arange(8, dtype=np.int32)[:, np.newaxis] + np.arange(6, dtype=np.int32)) % 5
    target = np.concatenate([np.full([8, 1], BEGIN_ID, np.int32), words[:, :-1]], 1)
    history = model.fit({"target": target}, words, batch_size=8, epochs=40, verbose=0)
    # All is known but the first of six words.
    assert history.history["loss"][0] > 2.0
    assert history.history["loss"][-1] < 1.3 * np.log(5) / 6
