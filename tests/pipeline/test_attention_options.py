"""Every attention is one line of an experiment."""

import pytest

from models.attention.kinds import ATTENTIONS, make_attention
from models.attention.scores import SCORES
from models.errors import UserError
from models.translation import TranslationModel
from pipeline.experiment import AttentionOptions, EncoderOptions
from pipeline.experiment_file import load_experiment

SMALL = """\
name: small
data: {train: [{format: tsv, path: pairs.tsv}]}
model: {embedding_size: 4, encoder: {units: 4}, decoder: {units: 8}}
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def model_of(path, *overrides):
    options = load_experiment(path, overrides).model
    model = TranslationModel(
        11,
        13,
        embedding_size=options.embedding_size,
        encoder=options.encoder.model_dump(),
        decoder=options.decoder.model_dump(),
        attention=options.attention.model_dump(),
    )
    model.build()
    return model


@pytest.mark.parametrize("kind", ATTENTIONS)
@pytest.mark.parametrize("score", SCORES)
def test_every_kind_goes_over_every_score(small, kind, score):
    model = model_of(small, f"model.attention={{kind: {kind}, score: {score}}}")
    attention = model.decoder.attention
    assert type(attention) is ATTENTIONS[kind] and type(attention.score) is SCORES[score]


def test_multi_head_and_self_attention(small):
    model = model_of(
        small, "model.attention.score=multi_head", "model.encoder.self_attention.layers=2"
    )
    assert model.decoder.attention.heads == 8 and len(model.encoder.self_attention) == 2


@pytest.mark.parametrize("kind", [kind for kind in ATTENTIONS if kind != "soft"])
def test_other_kinds_over_multi_head_are_refused_with_the_reason(small, kind):
    with pytest.raises(UserError, match="one score a position, and score 'multi_head' has one a"):
        load_experiment(small, [f"model.attention={{kind: {kind}, score: multi_head}}"])


def test_heads_that_divide_nothing_are_refused_with_their_key(small):
    with pytest.raises(UserError, match=r"model\.attention\.heads is 3.*divisor of 8"):
        model_of(small, "model.attention={score: multi_head, heads: 3}")
    with pytest.raises(UserError, match=r"model\.encoder\.self_attention\.heads is 3.*divisor"):
        model_of(small, "model.encoder.self_attention={layers: 1, heads: 3}")


def test_defaults_of_layers_are_those_of_the_experiment():
    options = AttentionOptions()
    sizes = {"query_size": 8, "memory_size": 8}
    for kind in ATTENTIONS:
        named = options.model_dump() | {"kind": kind}
        config = make_attention(**named, **sizes, name="a").get_config()
        assert config == make_attention(kind=kind, **sizes, name="a").get_config()
    heads = make_attention("multi_head", **sizes).heads
    assert heads == options.heads == EncoderOptions().self_attention.heads
