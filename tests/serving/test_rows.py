"""Rows of many strings as one tensor."""

import pytest

from models.errors import UserError
from serving.rows import padded_rows
from serving.wire import PredictRequest, write_column


def test_rows_are_padded_to_the_longest():
    assert padded_rows("a", [["ä", b"\xff"], (), [b"b"]]) == [
        ["ä".encode(), b"\xff"],
        [b"", b""],
        [b"b", b""],
    ]
    assert padded_rows("a", [[], []]) == [[b""], [b""]]


@pytest.mark.parametrize("rows", [[[b"a"], b"b"], [["a", 1]], [[["a"]]]])
def test_what_is_no_row_of_strings_is_named(rows):
    with pytest.raises(UserError, match=rf"input 'a': row {len(rows)} is not a list of texts"):
        padded_rows("a", rows)


def test_a_tensor_of_rows_has_two_axes():
    tensor = PredictRequest().inputs["a"]
    write_column([[b"a", b""], [b"b", b"c"]], tensor)
    assert [dim.size for dim in tensor.tensor_shape.dim] == [2, 2]
    assert list(tensor.string_val) == [b"a", b"", b"b", b"c"]
