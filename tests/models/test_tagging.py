import numpy as np
import pytest
import tensorflow as tf

from models.keras_recurrent import refuse_cudnn
from models.special_ids import MARK_IDS
from models.spelling import spell
from models.tagging import TaggingModel, WordEncoder
from tests.models.examples import close, mask_of, random_ids, randomize
from tests.models.reference.recurrent import run_stack

VOCABULARY, TAGS = 9, 7
LENGTHS = [3, 1, 2]
WORDS = [["sun", "in", "Rain"], ["x"], ["abcdefghij", "é"]]
SPELLINGS = {
    "none": None,
    "cnn": {"kind": "cnn", "embedding_size": 2, "units": 3, "window": 3},
    "rnn": {"kind": "rnn", "embedding_size": 2, "units": 3, "cell": "gru"},
}
every_spelling = pytest.mark.parametrize("spelling", SPELLINGS)
SEED = tf.constant([1, 2], tf.int32)


def make(spelling="cnn", **options):
    model = TaggingModel(
        VOCABULARY,
        TAGS,
        embedding_size=4,
        encoder={"units": 3, "layers": 1},
        spelling=SPELLINGS[spelling],
        **options,
    )
    model.build()
    return randomize(model)


def inputs(extra=0):
    """Ids and bytes of three rows, with more columns of pads."""
    ids = random_ids(LENGTHS, VOCABULARY)
    bytes_ = spell(tf.ragged.constant(WORDS), 8).to_tensor()
    return {
        "source": tf.pad(ids, [[0, 0], [0, extra]]),
        "characters": tf.pad(bytes_, [[0, 0], [0, extra], [0, extra]]),
    }


@pytest.mark.usefixtures("float64")
@every_spelling
def test_features_are_words_beside_their_spelling_read_both_ways(spelling):
    model = make(spelling)
    given = inputs()
    embedded = model.encoder.embedding(given["source"]).numpy()
    if spelling != "none":
        spelled = model.encoder.spelling(given["characters"])
        embedded = np.concatenate([embedded, spelled], -1)
    wanted, *_ = run_stack("lstm", embedded, LENGTHS, model.encoder.stack.get_weights(), True)
    found = np.where(mask_of(LENGTHS, 3)[..., tf.newaxis], model.features(given), 0.0)
    close(found, wanted)


@every_spelling
def test_pads_change_nothing(spelling):
    model = make(spelling)
    plain, padded = model.tag(inputs()), model.tag(inputs(extra=3))
    np.testing.assert_array_equal(padded.ids[:, :3], plain.ids)
    close(padded.probabilities[:, :3], plain.probabilities, 1e-6)
    assert not padded.ids[:, 3:].numpy().any() and not padded.probabilities[:, 3:].numpy().any()
    labels = random_ids(LENGTHS, TAGS)
    close(
        tuple(model.loss_sums(inputs(), labels, SEED, training=False)),
        tuple(
            model.loss_sums(inputs(extra=2), tf.pad(labels, [[0, 0], [0, 2]]), SEED, training=False)
        ),
    )


@every_spelling
def test_rows_are_independent(spelling):
    model = make(spelling)
    whole = model.tag(inputs())
    for row, length in enumerate(LENGTHS):
        alone = {name: each[row : row + 1, :length] for name, each in inputs().items()}
        close(model.tag(alone).probabilities, whole.probabilities[row : row + 1, :length])


def test_tags_are_no_marks_and_probabilities_are_of_the_softmax_without_them():
    model = make()
    biases = np.zeros(TAGS, np.float32)
    biases[list(MARK_IDS)] = 50.0
    model.projection.bias.assign(biases)
    tags = model.tag(inputs())
    real = mask_of(LENGTHS, 3).numpy()
    assert (tags.ids.numpy()[real] >= 4).all()
    logits = model(inputs()).numpy()[real][:, 4:]
    wanted = np.exp(logits).max(-1) / np.exp(logits).sum(-1)
    close(tags.probabilities.numpy()[real], wanted, 1e-4)


@every_spelling
def test_no_words_no_tags(spelling):
    model = make(spelling)
    for rows in (1, 2, 0):
        empty = {
            "source": tf.zeros([rows, 0], tf.int32),
            "characters": tf.zeros([rows, 0, 0], tf.int32),
        }
        tags = model.tag(empty)
        assert tags.ids.shape == tags.probabilities.shape == (rows, 0)


def test_unknown_words_differ_by_their_spelling():
    model = make("cnn")
    given = inputs()
    unknown = {**given, "source": tf.minimum(given["source"], 1)}
    found = model.features(unknown)
    other = {**unknown, "characters": tf.roll(given["characters"], 1, 0)}
    assert np.abs(found - model.features(other)).max() > 0.1
    silent = make("none")
    close(silent.features(unknown), silent.features(other), 1e-6)


def test_word_dropout_makes_words_unknown_in_training_alone():
    encoder = WordEncoder(VOCABULARY, 4, units=3, word_dropout=0.5)
    encoder.build()
    seen = []
    encoder.embedding.call = lambda ids: seen.append(ids.numpy()) or tf.zeros([*ids.shape, 4])
    ids = random_ids([15] * 40 + [3], VOCABULARY)
    encoder(ids, training=False)
    encoder(ids, training=True)
    np.testing.assert_array_equal(seen[0], ids)
    real = ids.numpy() != 0
    dropped = seen[1][real] == 1
    assert 0.4 < dropped.mean() < 0.6
    np.testing.assert_array_equal(seen[1][real][~dropped], ids.numpy()[real][~dropped])
    assert not seen[1][~real].any()


def test_missing_spelling_is_told():
    with pytest.raises(ValueError, match="no 'characters'"):
        make("cnn").features({"source": inputs()["source"]})


@every_spelling
def test_a_model_made_from_its_configuration_is_equal(spelling):
    model = make(spelling, dropout=0.1, word_dropout=0.2)
    again = TaggingModel.from_config(model.get_config())
    again.build()
    again.set_weights(model.get_weights())
    close(again(inputs()), model(inputs()), 1e-6)
    assert again.get_config() == model.get_config()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@every_spelling
def test_half_precision(spelling, policy):
    exact, half = make(spelling), make(spelling, dtype=policy)
    half.set_weights(exact.get_weights())
    close(half.tag(inputs()).probabilities, exact.tag(inputs()).probabilities, 0.05)


def test_every_weight_is_learned_and_xla_compiles_the_gradient():
    model = make("rnn", dropout=0.1)
    model.drop_pads = False
    refuse_cudnn(model)
    given, labels = inputs(), random_ids(LENGTHS, TAGS)
    variables = [each.value for each in model.trainable_variables]

    def gradients():
        with tf.GradientTape() as tape:
            loss = model.loss_sums(given, labels, SEED, training=False).loss
        return [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    compiled = tf.function(gradients, jit_compile=True)()
    assert all(np.abs(each).max() > 0 for each in compiled)
    close(compiled, gradients(), 1e-4)
