import numpy as np
import pytest
import tensorflow as tf

from models.spelling import SPELLING_SIZE, SPELLINGS, cut_words, spell
from tests.models.examples import close, randomize
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.summaries import convolve, ends

WORDS = [["a", "über", "x"], ["", "中"], []]
every_kind = pytest.mark.parametrize("kind", SPELLINGS)


def make(kind, **options):
    reader = SPELLINGS[kind](embedding_size=2, units=3, **options)
    reader.build()
    return randomize(reader)


def ragged(words):
    return tf.ragged.constant(words, tf.string, 1)


def ids_of(word):
    return [byte + 4 for byte in word.encode()]


def expected(kind, words, longest, arrays, cell="lstm"):
    """[B, S, F] as the equations have it; what stands at pads is the vector of no byte."""
    embedding, *own = arrays
    width = max(len(row) for row in words)
    rows = []
    for row in words:
        vectors = []
        for word in [*row, *[""] * (width - len(row))]:
            ids = ids_of(word)
            embedded = np.array([embedding[id] for id in [*ids, 0]])
            reader = (
                convolve(embedded, len(ids), own)
                if kind == "cnn"
                else ends(cell, embedded, len(ids), own)
            )
            vectors.append(reader)
        rows.append(vectors)
    return np.array(rows)


def test_words_are_spelled_in_bytes_that_no_table_limits():
    found = spell(ragged(WORDS), 10)
    assert found.to_list() == [[ids_of(word) for word in row] for row in WORDS]
    assert max(ids_of("ÿ\U0010ffff")) < SPELLING_SIZE


@pytest.mark.parametrize(
    ("longest", "kept"), [(2, "ag"), (3, "abg"), (6, "abcefg"), (7, "abcdefg"), (9, "abcdefg")]
)
def test_of_long_words_the_middle_is_left_out(longest, kept):
    assert spell(ragged([["abcdefg"]]), longest).to_list() == [[ids_of(kept)]]


@pytest.mark.parametrize("words", [[[]], [[""]], [[], ["", ""]]])
def test_no_bytes_at_all(words):
    found = spell(ragged(words), 5)
    assert found.to_list() == [[[] for _ in row] for row in words]
    reader = make("cnn")
    shape = reader(found.to_tensor()).shape
    assert tuple(shape) == (len(words), max(map(len, words)), 3)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_the_first_words_of_each_row_are_kept(dtype):
    found = cut_words(ragged(WORDS), tf.constant([2, 2, 0], dtype))
    assert found.to_list() == [[b"a", "über".encode()], [b"", "中".encode()], []]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("cnn", {"window": 3}),
        ("cnn", {"window": 4}),
        ("cnn", {"window": 1}),
        ("rnn", {"cell": "lstm"}),
        ("rnn", {"cell": "gru"}),
    ],
)
def test_forward_is_the_equation_whatever_the_padding(kind, options):
    reader = make(kind, **options)
    bytes_ = spell(ragged(WORDS), 10).to_tensor()  # [3, 3, 5]
    wanted = expected(kind, WORDS, 10, reader.get_weights(), options.get("cell"))
    close(reader(bytes_), wanted)
    close(reader(tf.pad(bytes_, [[0, 0], [0, 0], [0, 4]])), wanted)


@pytest.mark.usefixtures("float64")
@every_kind
def test_gradients_are_those_of_the_equation(kind):
    reader = make(kind)
    words = [["ab", "a"], ["bca", ""]]
    bytes_ = spell(ragged(words), 10).to_tensor()
    weights = tf.constant(np.random.default_rng(1).normal(size=(2, 2, reader.size)))
    rest = reader.trainable_variables[1:]
    table = reader.trainable_variables[0].numpy()

    def reference(arrays):
        found = expected(kind, words, 10, [table, *arrays])
        return float((found * weights.numpy()).sum())

    assert_same_loss_and_gradients(lambda: tf.reduce_sum(reader(bytes_) * weights), rest, reference)


def test_a_recurrent_reader_drops_while_training_what_it_is_told_to():
    reader = make("rnn", variational_dropout={"inputs": 0.5, "recurrent": 0.5})
    bytes_ = spell(ragged(WORDS), 10).to_tensor()
    close(reader(bytes_), make("rnn")(bytes_), 0.0)
    assert np.abs(reader(bytes_, training=True) - reader(bytes_)).max() > 1e-3


@every_kind
def test_half_precision_and_one_graph_for_all_sizes(kind):
    exact = make(kind)
    half = SPELLINGS[kind](embedding_size=2, units=3, dtype="mixed_bfloat16")
    half.build()
    half.set_weights(exact.get_weights())
    call = tf.function(half, input_signature=[tf.TensorSpec([None, None, None], tf.int32)])
    for words in (WORDS, [["a"]], [[""]]):
        bytes_ = spell(ragged(words), 10).to_tensor()
        found = call(bytes_)
        assert found.dtype == tf.bfloat16
        np.testing.assert_allclose(tf.cast(found, tf.float32), exact(bytes_), atol=0.03)


@every_kind
def test_a_layer_made_from_its_configuration_is_equal(kind):
    options = (
        {"window": 5} if kind == "cnn" else {"cell": "gru", "variational_dropout": {"inputs": 0.5}}
    )
    reader = make(kind, **options)
    again = type(reader).from_config(reader.get_config())
    again.build()
    assert again.get_config() == reader.get_config()
    again.set_weights(reader.get_weights())
    bytes_ = spell(ragged(WORDS), 10).to_tensor()
    close(again(bytes_), reader(bytes_), 1e-6)
