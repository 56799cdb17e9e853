"""Texts of many lines to ids and back, and what a continuation adds."""

import json

import numpy as np
import pytest
import tensorflow as tf

from models.line_texts import LineTexts
from models.special_ids import END_ID, UNKNOWN_ID
from models.tokenizers import ByteText, CharacterText, WordText
from models.vocabulary_pieces import byte_pieces, dump_pieces

VOCABULARIES = {
    "character": CharacterText(dump_pieces("character", list("abc de"))),
    "word": WordText(dump_pieces("word", ["ab", "c", "de"])),
    "byte": ByteText(dump_pieces("byte", byte_pieces())),
}
every_kind = pytest.mark.parametrize("kind", VOCABULARIES)
TEXTS = ["ab c\nde", "", "\n", "de\n\nc\n", "c"]


@every_kind
def test_a_stream_comes_back_as_it_was(kind):
    texts = LineTexts(VOCABULARIES[kind], stream=True)
    ids = texts.encode(tf.constant(TEXTS))
    assert ids.shape.as_list() == [5, None]
    assert [row.count(END_ID) for row in ids.to_list()] == [1, 0, 1, 3, 0]
    assert [text.decode() for text in texts.decode(ids.to_tensor()).numpy()] == TEXTS


@every_kind
def test_a_line_ends_as_files_of_any_system_have_it(kind):
    texts = LineTexts(VOCABULARIES[kind], stream=True)
    ids = texts.encode(tf.constant(["ab\r\nc", "ab\nc"])).to_list()
    assert ids[0] == ids[1]


@every_kind
def test_a_single_line_is_the_vocabularys_own(kind):
    vocabulary = VOCABULARIES[kind]
    texts = LineTexts(vocabulary, stream=False)
    given = tf.constant(["ab c", ""])
    assert texts.encode(given).to_list() == vocabulary.encode(given).to_list()
    ids = tf.constant([[4, 5, END_ID], [6, 0, 0]])
    np.testing.assert_array_equal(texts.decode(ids), vocabulary.decode(ids))


@every_kind
@pytest.mark.parametrize("stream", [False, True])
def test_prompt_and_continuation_make_the_whole(kind, stream):
    texts = LineTexts(VOCABULARIES[kind], stream)
    whole = ["ab c de", "c", "", "ab"] + (["ab\nc de", "c\n", "\nde"] if stream else [])
    ids = texts.encode(tf.constant(whole)).to_list()
    for cut in range(4):
        prompts = tf.ragged.constant([row[:cut] for row in ids], tf.int32, 1).to_tensor()
        rests = tf.ragged.constant([row[cut:] for row in ids], tf.int32, 1).to_tensor()
        begun = texts.decode(prompts)
        added = texts.continuation(prompts, rests)
        assert [text.decode() for text in tf.strings.join([begun, added]).numpy()] == whole


def test_the_end_of_a_generated_line_says_nothing():
    texts = LineTexts(VOCABULARIES["word"], stream=False)
    added = texts.continuation(tf.constant([[4], [4]]), tf.constant([[5, END_ID], [END_ID, 0]]))
    assert added.numpy().tolist() == [b" c", b""]


def test_a_prompt_that_begins_within_a_character_is_continued():
    """As one whose first pieces were cut off is."""
    texts = LineTexts(VOCABULARIES["byte"], stream=True)
    ids = texts.encode(tf.constant(["é a b"])).to_tensor()
    added = texts.continuation(ids[:, 1:3], ids[:, 3:])
    assert added.numpy().tolist() == [b"a b"]


def test_no_texts_and_no_ids():
    texts = LineTexts(VOCABULARIES["character"], stream=True)
    assert texts.encode(tf.constant([], tf.string)).to_tensor().shape[0] == 0
    assert texts.decode(tf.zeros([0, 0], tf.int32)).shape == (0,)
    assert texts.decode(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]


def test_unknown_pieces_stay_in_step():
    texts = LineTexts(VOCABULARIES["word"], stream=True)
    assert texts.encode(tf.constant(["ab x\nc"])).to_list() == [[4, UNKNOWN_ID, END_ID, 5]]
    assert json.loads(dump_pieces("word", []))["kind"] == "word"
