import io

import pytest
import sentencepiece
import tensorflow as tf

from models.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from models.tokenizers import (
    SentencePieceText,
    after_begin,
    with_begin,
    with_end,
    without_marks,
)

SENTENCES = [
    "the cat sat on the mat",
    "a cat and a dog sat there",
    "the dog ran after the cat",
    "你好 世界",
    "那 只 猫 坐 在 垫子 上",
]


@pytest.fixture(scope="module")
def proto():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 5),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        pad_id=PAD_ID,
        unk_id=UNKNOWN_ID,
        bos_id=BEGIN_ID,
        eos_id=END_ID,
        minloglevel=3,
    )
    return model.getvalue()


@pytest.fixture
def vocabulary(proto):
    return SentencePieceText(proto)


@pytest.fixture(scope="module")
def processor(proto):
    return sentencepiece.SentencePieceProcessor(model_proto=proto)


def texts(tensor):
    return [text.decode() for text in tensor.numpy()]


def test_its_size_is_that_of_the_model(vocabulary, processor):
    assert vocabulary.size == processor.get_piece_size()


def test_ids_are_those_of_sentencepiece_without_marks(vocabulary, processor):
    ids = vocabulary.encode(tf.constant(SENTENCES))
    assert isinstance(ids, tf.RaggedTensor) and ids.dtype == tf.int32
    assert ids.to_list() == processor.encode(SENTENCES)
    assert not {PAD_ID, BEGIN_ID, END_ID} & {id for row in ids.to_list() for id in row}


def test_what_is_encoded_decodes_to_itself(vocabulary):
    ids = vocabulary.encode(tf.constant(SENTENCES))
    assert texts(vocabulary.decode(ids)) == SENTENCES
    assert texts(vocabulary.decode(with_begin(with_end(ids)).to_tensor())) == SENTENCES


@pytest.mark.parametrize("hostile", ["", "   ", "\u2028", "zzz 🙂", "\x00", "the\tcat\n"])
def test_any_text_becomes_ids_of_the_vocabulary_and_back(vocabulary, processor, hostile):
    ids = vocabulary.encode(tf.constant([hostile, SENTENCES[0]]))
    assert all(0 <= id < vocabulary.size for id in ids.to_list()[0])
    assert ids.to_list() == processor.encode([hostile, SENTENCES[0]])
    assert texts(vocabulary.decode(ids))[1] == SENTENCES[0]


def test_letters_never_seen_are_unknown(vocabulary):
    assert UNKNOWN_ID in vocabulary.encode(tf.constant(["QQQ"])).to_list()[0]


def test_no_texts_have_no_ids(vocabulary):
    ids = vocabulary.encode(tf.zeros([0], tf.string))
    assert ids.to_list() == []
    assert vocabulary.decode(ids).shape == (0,)
    assert vocabulary.decode(tf.zeros([0, 0], tf.int32)).shape == (0,)
    assert with_end(ids).to_list() == with_begin(ids).to_list() == []


def test_marks_and_pads_say_nothing(vocabulary):
    (row,) = vocabulary.encode(tf.constant(SENTENCES[:1])).to_list()
    ids = tf.constant([[BEGIN_ID, *row, END_ID, PAD_ID], [END_ID] * (len(row) + 3)])
    assert texts(vocabulary.decode(ids)) == [SENTENCES[0], ""]


def test_pieces_are_named_and_pads_are_empty(vocabulary, processor):
    (row,) = processor.encode(SENTENCES[:1])
    pieces = vocabulary.pieces(tf.constant([[BEGIN_ID, *row, END_ID], [PAD_ID] * (len(row) + 2)]))
    wanted = [processor.id_to_piece(id) for id in (BEGIN_ID, *row, END_ID)]
    assert texts(pieces[0]) == wanted
    assert texts(pieces[1]) == [""] * (len(row) + 2)


def test_it_works_in_a_graph_and_in_a_saved_model(vocabulary, tmp_path):
    class Echo(tf.Module):
        def __init__(self):
            super().__init__()
            self.resources = vocabulary.resources

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, text):
            ids = with_end(vocabulary.encode(text)).to_tensor()
            return {"text": vocabulary.decode(ids), "pieces": vocabulary.pieces(ids)}

    echo = Echo()
    tf.saved_model.save(echo, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    found = loaded(tf.constant(SENTENCES))
    assert texts(found["text"]) == SENTENCES
    assert (
        found["pieces"].numpy().tolist() == echo(tf.constant(SENTENCES))["pieces"].numpy().tolist()
    )


def test_the_end_mark_goes_after_each_row_and_the_begin_mark_before():
    rows = tf.ragged.constant([[7, 8], [], [9]], tf.int32)
    assert with_end(rows).to_list() == [[7, 8, END_ID], [END_ID], [9, END_ID]]
    assert with_begin(rows).to_list() == [[BEGIN_ID, 7, 8], [BEGIN_ID], [BEGIN_ID, 9]]


def test_marks_are_taken_out_of_tensors_and_ragged_tensors():
    rows = [[BEGIN_ID, 7, 8, END_ID, PAD_ID], [END_ID, 0, 0, 0, 0], [7, PAD_ID, 8, 1, 9]]
    wanted = [[7, 8], [], [7, 8, 1, 9]]
    assert without_marks(tf.constant(rows)).to_list() == wanted
    assert without_marks(tf.ragged.constant(rows, tf.int32)).to_list() == wanted


def test_decoder_inputs_are_the_labels_one_word_later():
    labels = tf.constant([[7, 8, END_ID], [9, END_ID, PAD_ID]])
    assert after_begin(labels).numpy().tolist() == [[BEGIN_ID, 7, 8], [BEGIN_ID, 9, END_ID]]
    assert after_begin(tf.zeros([0, 3], tf.int32)).shape == (0, 3)
