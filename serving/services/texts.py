"""Requests' texts as the model's corpora have them, as graph ops on strings."""

import tensorflow as tf

from models.separators import QUESTION, SENTENCE

_LINE_BREAK = r"[\r\n]+"
_INSIDE = rf"[\r\n{SENTENCE}{QUESTION}]+"


def with_sentences(text: tf.Tensor) -> tf.Tensor:
    """Texts, string [B], whose line breaks have become separators between sentences."""
    return tf.strings.regex_replace(text, _LINE_BREAK, f" {SENTENCE} ")


def in_one_line(text: tf.Tensor) -> tf.Tensor:
    """Texts, string [B], whose line breaks and separators have become spaces."""
    return tf.strings.regex_replace(text, _INSIDE, " ")


def with_question(story: tf.Tensor, question: tf.Tensor) -> tf.Tensor:
    """Stories and the questions about them, string [B], joined as corpora join them."""
    sentences = with_sentences(tf.strings.regex_replace(story, QUESTION, " "))
    return tf.strings.join([sentences, f" {QUESTION} ", in_one_line(question)])
