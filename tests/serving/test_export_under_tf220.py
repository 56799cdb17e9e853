"""What is exported here gives the same answers under the server's own TensorFlow.

`make check-serving` makes an environment with TensorFlow 2.20.0 and TensorFlow Text 2.20.1 and runs
this file with it. SEQLOOM_TF220_PYTHON may name the Python of another such environment.
"""

import base64
import io
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import sentencepiece

from serving.export import export_service
from serving.graph_batching import GraphBatching
from serving.server.saved_model import SavedModelSession
from tests.serving.every_service import EVERY_SERVICE
from tests.serving.load_under_tf220 import as_lists

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = os.environ.get("SEQLOOM_TF220_PYTHON", ROOT / ".venv-serving/bin/python")
LOADER = pathlib.Path(__file__).with_name("load_under_tf220.py")
SENTENCES = ["a small model of words", "", "words, of 模型!", "  a\u2028b  ", "C4:4 D4:2 E4:4"]

pytestmark = pytest.mark.skipif(
    not pathlib.Path(PYTHON).exists(),
    reason="no environment with TensorFlow 2.20: `make check-serving` makes one",
)


@pytest.fixture(scope="module")
def proto():
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


@pytest.mark.parametrize("batching", [None, GraphBatching()], ids=["alone", "together"])
@pytest.mark.parametrize("kind", EVERY_SERVICE)
def test_answers_are_equal(kind, batching, proto, tmp_path):
    service = EVERY_SERVICE[kind](proto)
    requests = service.warmup_requests(SENTENCES)
    folder = tmp_path / "1"
    export_service(service, folder, kind, requests, batching)
    asked = [(name, inputs) for name, several in requests.items() for inputs in several]
    told = answered_elsewhere(folder, asked)
    assert told["tensorflow"].startswith("2.20.") and told["text"].startswith("2.20.")
    session = SavedModelSession(folder)
    for (name, inputs), found in zip(asked, told["responses"], strict=True):
        expected = answered_here(session, name, inputs)
        assert set(found) == set(expected)
        for alias, array in expected.items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(found[alias], array, rtol=1e-4, atol=1e-5)
            else:
                assert found[alias] == as_lists(array), (name, alias)
    session.close()


def answered_elsewhere(folder, asked):
    body = json.dumps(
        [
            {"signature": name, "inputs": {key: as_lists(one) for key, one in inputs.items()}}
            for name, inputs in asked
        ]
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [PYTHON, LOADER, folder],
        input=body,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def answered_here(session, name, inputs):
    signature = session.signatures[name]
    aliases = sorted(signature.outputs)
    feeds = {signature.inputs[alias].name: value for alias, value in inputs.items()}
    values = session.run(feeds, [signature.outputs[alias].name for alias in aliases])
    return dict(zip(aliases, values, strict=True))


def test_strings_pass_whatever_they_hold():
    array = np.array([[b"\xff", b""], ["é".encode(), b"a"]], dtype=object)
    assert as_lists(array)[0] == [base64.b64encode(b"\xff").decode(), ""]
