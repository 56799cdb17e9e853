import pytest

from serving.server.version_folders import latest, versions_on_disk
from serving.server.version_policy import Action, State, next_action

AVAILABLE, LOADING, END = State.AVAILABLE, State.LOADING, State.END


@pytest.mark.parametrize(
    ("states", "wanted", "action"),
    [
        ({}, {}, None),
        ({}, {1}, Action("load", 1)),
        ({1: AVAILABLE}, {1}, None),
        # The new version comes before the old one goes.
        ({1: AVAILABLE}, {2}, Action("load", 2)),
        ({1: AVAILABLE, 2: LOADING}, {2}, None),
        ({1: AVAILABLE, 2: AVAILABLE}, {2}, Action("unload", 1)),
        # A version that failed is not tried again, and the old one stays.
        ({1: AVAILABLE, 2: END}, {2}, None),
        ({1: AVAILABLE, 2: END}, {3}, Action("load", 3)),
        # Nothing is wanted any more.
        ({1: AVAILABLE}, {}, Action("unload", 1)),
        # Going back to a lower version works the same way.
        ({2: AVAILABLE}, {1}, Action("load", 1)),
        ({1: AVAILABLE, 2: AVAILABLE}, {1}, Action("unload", 2)),
        # Of two that nobody wants one is enough until a wanted one is there.
        ({1: AVAILABLE, 2: AVAILABLE, 3: END}, {3}, Action("unload", 1)),
        ({}, {1, 2}, Action("load", 2)),
    ],
)
def test_next_action(states, wanted, action):
    assert next_action(states, wanted) == action


def test_versions_are_the_entries_with_integer_names(tmp_path):
    for name in ("1", "02", "10", "x", "1a", ".3.partial", "٤", "1_0", " 5", "1.0"):
        (tmp_path / name).mkdir()
    (tmp_path / "7").write_text("a file counts, and will fail to load")
    (tmp_path / str(1 << 63)).mkdir()
    assert versions_on_disk(tmp_path) == {
        1: tmp_path / "1",
        2: tmp_path / "02",
        7: tmp_path / "7",
        10: tmp_path / "10",
    }


def test_of_two_names_of_one_number_the_later_counts(tmp_path):
    for name in ("01", "1"):
        (tmp_path / name).mkdir()
    assert versions_on_disk(tmp_path) == {1: tmp_path / "1"}


def test_latest(tmp_path):
    versions = {1: tmp_path / "1", 9: tmp_path / "9", 10: tmp_path / "10"}
    assert list(latest(versions)) == [10]
    assert list(latest(versions, 2)) == [10, 9]
    assert latest({}) == {}


def test_a_base_path_that_is_gone_is_an_error_and_not_an_empty_list(tmp_path):
    with pytest.raises(OSError):
        versions_on_disk(tmp_path / "gone")
