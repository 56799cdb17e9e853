"""Texts taken apart at their separators."""

import numpy as np
import pytest
import tensorflow as tf

from models.stories import split_question, split_sentences

SENTENCE, QUESTION = 5, 6


@pytest.mark.parametrize(
    ("ids", "story", "question"),
    [
        ([7, 5, 8, 6, 9], [7, 5, 8], [9]),
        ([6, 9, 8], [], [9, 8]),
        ([7, 8, 6], [7, 8], []),
        ([9, 8], [], [9, 8]),
        ([7, 6, 8, 6, 9], [7, 6, 8], [9]),
        ([6], [], []),
        ([], [], []),
    ],
)
def test_the_last_separator_parts_story_and_question(ids, story, question):
    # Between rows of other lengths, which are not to get into each other's way.
    rows = tf.ragged.constant([[6, 6, 4], ids, [4, 4, 4, 4, 4, 6, 4]], tf.int32, 1)
    found = split_question(rows, QUESTION)
    assert found.story.to_list()[1] == story
    assert found.question.to_list()[1] == question
    assert found.story.to_list()[2] == [4, 4, 4, 4, 4]


def test_no_rows_have_no_parts():
    found = split_question(tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int32), []), QUESTION)
    assert found.story.to_list() == found.question.to_list() == []


def test_sentences_lie_in_rows_without_marks():
    ids = tf.constant(
        [
            [7, 8, 5, 9, 3, 0, 0],
            [5, 5, 7, 5, 5, 8, 3],  # empty sentences at the start and inside
            [3, 0, 0, 0, 0, 0, 0],
            [7, 8, 9, 5, 3, 0, 0],  # an empty one at the end
        ]
    )
    wanted = [
        [[7, 8, 0], [9, 0, 0]],
        [[7, 0, 0], [8, 0, 0]],
        [[0, 0, 0], [0, 0, 0]],
        [[7, 8, 9], [0, 0, 0]],
    ]
    np.testing.assert_array_equal(split_sentences(ids, SENTENCE), wanted)


@pytest.mark.parametrize("ids", [np.zeros([0, 0]), np.zeros([2, 0]), np.full([2, 1], 3)])
def test_what_holds_no_sentence_has_one_place(ids):
    found = split_sentences(tf.constant(ids, tf.int32), SENTENCE)
    assert found.shape == (len(ids), 1, 1)
    assert not found.numpy().any()
