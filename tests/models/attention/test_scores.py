import keras
import numpy as np
import pytest

from models.attention.kinds import ATTENTIONS, make_attention
from models.attention.scores import SCORES, DotScore, ScaledDotScore
from models.errors import UserError
from tests.models.attention.cases import NEED_EQUAL_SIZES
from tests.models.examples import close, random_tensor, randomize
from tests.models.reference import attention as reference


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", SCORES)
def test_a_score_alone_is_the_equation(name):
    score = SCORES[name](4, 4 if name in NEED_EQUAL_SIZES else 3, 6)
    score.build()
    randomize(score)
    query, memory = random_tensor(2, 3, 4, seed=1), random_tensor(2, 5, score.memory_size, seed=2)
    found = score(query, memory)
    for row in range(2):
        arrays = (query[row].numpy(), memory[row].numpy(), score.get_weights())
        close(found[row], reference.SCORES[name](*arrays))


@pytest.mark.parametrize("name", SCORES)
def test_a_score_made_from_its_configuration_is_equal(name):
    score = SCORES[name](4, 4, 6, 0.3)
    again = type(score).from_config(score.get_config())
    assert again.get_config() == score.get_config()


@pytest.mark.parametrize("name", ["general", "concat", "additive"])
def test_weights_start_in_the_range_asked_for(name):
    score = SCORES[name](40, 30, 50, initializer_range=0.01)
    score.build()
    for weight in score.trainable_variables:
        largest = np.abs(keras.ops.convert_to_numpy(weight)).max()
        assert largest == 0.0 if weight.name == "bias" else 0.005 < largest <= 0.01


@pytest.mark.parametrize("score", ["concat", "additive", "multi_head"])
def test_a_comparison_is_as_wide_as_the_query_unless_told(score):
    for units, width in ((None, 4), (6, 6)):
        attention = make_attention(score, units, query_size=4, memory_size=3, heads=2)
        attention.build()
        assert width in attention.trainable_variables[0].shape


@pytest.mark.parametrize(("score", "name"), [(DotScore, "dot"), (ScaledDotScore, "scaled_dot")])
def test_products_of_unequal_sizes_are_refused_by_the_name_of_their_key(score, name):
    with pytest.raises(UserError, match=rf"model\.attention\.score '{name}'.* 4 .* 3.*'general'"):
        score(4, 3)


@pytest.mark.parametrize("kind", [kind for kind in ATTENTIONS if kind != "soft"])
def test_multi_head_is_always_soft(kind):
    with pytest.raises(UserError, match=rf"kind '{kind}' .*'multi_head' has one a head; take"):
        make_attention("multi_head", kind=kind, query_size=4, memory_size=4)
