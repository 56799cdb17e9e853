"""SavedModels small enough to build in a test, with the signatures of a translation model."""

import pathlib

import tensorflow as tf

# A text like this keeps the graph busy for so many seconds; the run can be cancelled meanwhile.
WAIT = "wait:"

_TEXT = tf.TensorSpec([None], tf.string, name="text")


class TinyTranslator(tf.Module):
    """Turns ASCII letters into capitals, behind a mark that tells versions apart."""

    def __init__(self, mark: str):
        super().__init__()
        self._mark = mark

    def _translation(self, text):
        waited = _wait_as_asked(text)
        with tf.control_dependencies([waited]):
            return tf.strings.join([self._mark, tf.strings.upper(text)])

    @tf.function(input_signature=[_TEXT])
    def translate(self, text):
        return {"translation": self._translation(text), "score": _score(text)}

    @tf.function(input_signature=[_TEXT])
    def nbest(self, text):
        return {
            "translations": tf.stack([self._translation(text), text], axis=1),
            "scores": tf.stack([_score(text), _score(text) - 1.0], axis=1),
        }

    @tf.function(input_signature=[_TEXT])
    def align(self, text):
        source = tf.strings.split(text, " ").to_tensor("")
        target = tf.strings.upper(source)
        ones = tf.ones([tf.shape(target)[0], tf.shape(target)[1], tf.shape(source)[1]])
        return {
            "translation": self._translation(text),
            "source_tokens": source,
            "target_tokens": target,
            "alignment": ones / tf.cast(tf.shape(source)[1], tf.float32),
        }

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="source"),
            tf.TensorSpec([None], tf.string, name="target"),
        ]
    )
    def score(self, source, target):
        length = tf.strings.length(target)
        return {
            "log_probability": tf.cast(-length - tf.strings.length(source), tf.float32) / 7.0,
            "tokens": length + 1,
        }

    @tf.function(
        input_signature=[
            tf.TensorSpec(None, tf.float32, name="number"),
            tf.TensorSpec([None], tf.bool, name="flag"),
            tf.TensorSpec([None], tf.int64, name="count"),
            tf.TensorSpec([None], tf.string, name="data"),
        ]
    )
    def echo(self, number, flag, count, data):
        same = tf.identity
        return {
            "number": same(number),
            "flag": same(flag),
            "count": same(count),
            "data_bytes": same(data),
        }

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
    def numbers(self, x):
        return {"y": tf.identity(x)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="data")])
    def binary(self, data):
        return {"data_bytes": tf.identity(data)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="data")])
    def raw(self, data):
        return {"data": tf.identity(data)}


def save(folder: pathlib.Path, mark: str = "") -> pathlib.Path:
    """Write a SavedModel, and return its folder."""
    model = TinyTranslator(mark)
    signatures = {
        "serving_default": model.translate,
        "nbest": model.nbest,
        "align": model.align,
        "score": model.score,
        "echo": model.echo,
        "numbers": model.numbers,
        "binary": model.binary,
        "raw": model.raw,
    }
    tf.saved_model.save(model, str(folder), signatures=signatures)
    return folder


def _score(text):
    return tf.cast(-tf.strings.length(text), tf.float32) / 3.0


def _wait_as_asked(text):
    asks = tf.strings.regex_full_match(text, WAIT + "[0-9.]+")
    asked = tf.where(asks, tf.strings.regex_replace(text, WAIT, ""), "0")
    end = tf.timestamp() + tf.reduce_max(tf.strings.to_number(asked, tf.float64))
    (now,) = tf.while_loop(lambda now: now < end, lambda now: [tf.timestamp()], [tf.timestamp()])
    return now
