"""What a server answers from an export is what the model answers here."""

import io

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from models.search.hypotheses import SearchOptions
from models.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from models.tokenizers import SentencePieceText, after_begin, with_end
from models.translation import TranslationModel
from serving import signatures
from serving.export import export_service
from serving.server.saved_model import SavedModelSession
from serving.services.translation import TranslationOptions, TranslationService
from tests.models.examples import MODELS, randomize

TEXTS = ["the cat", "a dog sat on the mat", "", "mat"]
CASES = [
    ("luong", {"score": "multi_head", "heads": 2, "units": 4}),
    ("luong-fed", {"kind": "local_predictive", "score": "scaled_dot", "window": 2}),
    ("bahdanau", {"kind": "local_monotonic", "score": "general", "window": 1}),
    ("bahdanau", {"kind": "hard", "score": "additive"}),
]


class Service(TranslationService):
    """Of the signatures, those that these tests ask."""

    declared = (signatures.TRANSLATE, signatures.ALIGN)


@pytest.fixture(scope="module")
def vocabulary():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat", "a cat and a dog sat there"] * 5),
        model_writer=model,
        vocab_size=40,
        hard_vocab_limit=False,
        pad_id=PAD_ID,
        unk_id=UNKNOWN_ID,
        bos_id=BEGIN_ID,
        eos_id=END_ID,
        minloglevel=3,
    )
    return SentencePieceText(model.getvalue())


def served(folder, name, texts):
    """The answer of a signature, by the server's own executor."""
    session = SavedModelSession(folder)
    signature = session.signatures[name]
    names = sorted(signature.outputs)
    given = {signature.inputs["text"].name: np.array([text.encode() for text in texts], object)}
    answer = session.run(given, [signature.outputs[each].name for each in names])
    session.close()
    return dict(zip(names, answer, strict=True))


@pytest.mark.parametrize(("name", "attention"), CASES)
def test_served_translations_and_alignments_are_the_models(name, attention, vocabulary, tmp_path):
    options = {**MODELS[name], "embedding_size": 3, "attention": attention}
    model = TranslationModel(vocabulary.size, vocabulary.size, **options)
    model.build()
    randomize(model, scale=1.0)
    search = SearchOptions(beam_size=3, max_length_factor=1.0, max_length_extra=1)
    baked = TranslationOptions(search, nbest=2, max_source_length=50)
    service = Service(model, vocabulary, vocabulary, baked)
    export_service(service, tmp_path / "1", "translation", service.warmup_requests(TEXTS[:1]))

    source = with_end(vocabulary.encode(tf.constant(TEXTS))).to_tensor()
    found = model.translate(source, search)
    ids = found.ids[:, 0]
    answer = served(tmp_path / "1", "serving_default", TEXTS)
    texts = vocabulary.decode(ids).numpy().tolist()
    assert list(answer["translation"]) == texts and any(texts)
    np.testing.assert_allclose(answer["score"], found.scores[:, 0], rtol=1e-4, atol=1e-5)
    answer = served(tmp_path / "1", "align", TEXTS)
    wanted = model.force(source, after_begin(ids), ids).weights
    wanted *= tf.cast(ids != PAD_ID, tf.float32)[..., tf.newaxis]
    np.testing.assert_allclose(answer["alignment"], wanted, atol=1e-5)
    if attention.get("kind") == "hard":
        assert set(np.unique(answer["alignment"])) == {0.0, 1.0}
