"""What this TensorFlow exports gives the same answers under the server's TensorFlow 2.20.

Set SEQLOOM_TF220_PYTHON to the Python of an environment made by

    python3 -m venv ENV && ENV/bin/pip install tensorflow-cpu==2.20.0 tensorflow-text==2.20.1
"""

import io
import json
import os
import pathlib
import subprocess

import keras
import keras_nlp
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from serving.linter import check

PYTHON = os.environ.get("SEQLOOM_TF220_PYTHON", "")
LOADER = pathlib.Path(__file__).with_name("load_under_tf220.py")
SENTENCES = ["a small model of words", "", "words, of 模型!", "  a\u2028b  "]

pytestmark = pytest.mark.skipif(
    not PYTHON, reason="SEQLOOM_TF220_PYTHON names no Python with TensorFlow 2.20"
)


def _spm_model():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a small model of words", "words of a 模型"] * 10),
        model_writer=model,
        vocab_size=30,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    return model.getvalue()


class Reader(tf.Module):
    """Text to pieces, a recurrent layer over them, a search-like loop, and text again."""

    def __init__(self):
        super().__init__()
        proto = _spm_model()
        self.encoder = keras_nlp.tokenizers.SentencePieceTokenizer(proto=proto)
        self.decoder = keras_nlp.tokenizers.SentencePieceTokenizer(proto=proto)
        self.parameters, self.read = self._reader()

    def _reader(self):
        embedding = keras.layers.Embedding(self.encoder.vocabulary_size(), 4)
        recurrent = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
        recurrent(embedding(tf.zeros([1, 1], tf.int32)))

        def read(text):
            ids = self.encoder(text).to_tensor()  # [B, T]
            states = recurrent(embedding(ids))  # [B, T, 6]
            return {"translation": self.decoder.detokenize(ids), "states": states}

        variables = embedding.variables + recurrent.variables
        text = tf.TensorSpec([None], tf.string, name="text")
        return [each.value for each in variables], tf.function(read, input_signature=[text])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def count(self, text):
        ids = self.encoder(text).to_tensor()  # [B, T]
        length = tf.zeros_like(ids[:, :1])[:, 0]  # [B]
        step = tf.constant(0)
        while step < tf.shape(ids)[1]:
            length += tf.cast(ids[:, step] != 0, tf.int32)
            step += 1
        return {"pieces": tf.ensure_shape(length, [None])}


def _plain(value: tf.Tensor) -> list:
    array = value.numpy()
    if array.dtype == object:
        array = np.vectorize(bytes.decode, otypes=[object])(array)
    return array.tolist()


def test_answers_are_equal(tmp_path):
    module = Reader()
    folder = tmp_path / "1"
    signatures = {"serving_default": module.read, "count": module.count}
    tf.saved_model.save(module, str(folder), signatures=signatures)
    check(folder)
    requests = [{"signature": name, "inputs": {"text": SENTENCES}} for name in signatures]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [PYTHON, str(LOADER), str(folder)],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["tensorflow"].startswith("2.20.")
    here = [call(tf.constant(SENTENCES)) for call in signatures.values()]
    for expected, found in zip(here, told["responses"], strict=True):
        assert set(found) == set(expected)
        for name, tensor in expected.items():
            if tensor.dtype.is_floating:
                np.testing.assert_allclose(found[name], tensor, rtol=1e-5, atol=1e-6)
            else:
                assert found[name] == _plain(tensor)
