"""The training loss that an experiment asks for, and the counts it draws noise by."""

import numpy as np
import pydantic
import pytest

from models.errors import UserError
from models.losses import FullSoftmax, NoiseContrastiveEstimation, SampledSoftmax
from models.projection import VocabularyProjection
from pipeline.assembly import build_loss, start_projection
from pipeline.experiment import Experiment
from pipeline.workspace import Workspace

COUNTS = [0, 5, 0, 90, 40, 40, 7, 0]


def make_workspace(folder, counts):
    """A workspace whose target words came so often."""
    workspace = Workspace(folder)
    if counts is not None:
        workspace.data.mkdir(parents=True)
        lines = [f"piece{index}\t{count}\n" for index, count in enumerate(counts)]
        workspace.counts("target").write_text("".join(lines), encoding="utf-8")
    return workspace


def make_experiment(**settings):
    corpus = {"format": "tsv", "path": "corpus.tsv"}
    return Experiment(name="x", data={"train": [corpus]}, **settings)


def make(folder, counts, **train):
    """The loss of an experiment whose target words came so often."""
    return build_loss(make_experiment(train=train), make_workspace(folder, counts), len(COUNTS))


def test_the_kind_is_one_line(tmp_path):
    kinds = {"full": FullSoftmax, "sampled": SampledSoftmax, "nce": NoiseContrastiveEstimation}
    for kind, wanted in kinds.items():
        assert type(make(tmp_path / kind, COUNTS, loss={"kind": kind})) is wanted


def test_options_reach_the_noise(tmp_path):
    options = {"kind": "sampled", "noise_words": 5, "distortion": 1.0}
    noise = make(tmp_path / "unigram", COUNTS, loss=options).noise
    assert noise.count == 5
    np.testing.assert_allclose(noise.probabilities[3] / noise.probabilities[6], 90 / 7)
    options = {"kind": "sampled", "noise_words": 5, "noise": "log_uniform"}
    noise = make(tmp_path / "log", COUNTS, loss=options).noise
    np.testing.assert_allclose(noise.probabilities[0], np.log(2) / np.log(9))


def test_the_full_softmax_needs_no_counts(tmp_path):
    assert make(tmp_path, None, loss={"label_smoothing": 0.1}).label_smoothing == 0.1


@pytest.mark.parametrize(
    ("counts", "noise", "message"),
    [
        (None, "unigram", "no such counts; run `seqloom prepare`"),
        (COUNTS[:-1], "unigram", "counts 7 words, and the model scores 8"),
        ([0] * 8, "unigram", "counts no word at all"),
        ([0, 5, 0, 9, 4, 7, 6, 8], "log_uniform", "id 5 came 7 times and id 4 before it 4 times"),
    ],
    ids=["missing", "other-size", "empty", "not-sorted"],
)
def test_counts_that_no_noise_can_be_drawn_by(tmp_path, counts, noise, message):
    with pytest.raises(UserError, match=message):
        make(tmp_path, counts, loss={"kind": "nce", "noise": noise})


def test_the_sampled_softmax_is_not_compiled_by_xla():
    with pytest.raises(pydantic.ValidationError, match="XLA cannot compile the loss 'sampled'"):
        make(None, None, jit_compile=True, loss={"kind": "sampled"})


@pytest.mark.parametrize(("task", "informed"), [("translation", True), ("classification", False)])
def test_words_start_as_likely_as_they_come_and_labels_alike(tmp_path, task, informed):
    projection = VocabularyProjection(len(COUNTS), 3)
    projection.build()
    flat = projection.bias.numpy()
    experiment = make_experiment(model={"task": task})
    start_projection(experiment, make_workspace(tmp_path, COUNTS), projection)
    seen = np.maximum(COUNTS, 1)
    wanted = np.log(seen / seen.sum()) if informed else flat
    np.testing.assert_allclose(projection.bias.numpy(), wanted, rtol=1e-6)
