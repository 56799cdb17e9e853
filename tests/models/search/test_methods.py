import pytest

from models.errors import UserError
from models.search.methods import SEARCHES
from tests.models.search.toys import ToySearch, random_table


@pytest.mark.parametrize("kind", SEARCHES)
def test_the_kind_chooses_the_search(kind, monkeypatch):
    asked = []
    monkeypatch.setitem(SEARCHES, kind, lambda *given: asked.append(given) or ())
    ToySearch(kind=kind)(random_table(0), [1], [1])
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("options", "keeps"),
    [({"beam_size": 3, "nbest": 4}, 3), ({"kind": "greedy", "beam_size": 9, "nbest": 4}, 1)],
)
def test_more_translations_than_are_kept_are_refused_by_the_names_of_the_keys(options, keeps):
    told = rf"4 translations .* keeps {keeps}; .*search\.kind.*search\.beam_size.*export\.nbest"
    with pytest.raises(UserError, match=told):
        ToySearch(**options)(random_table(0), [1], [1])
