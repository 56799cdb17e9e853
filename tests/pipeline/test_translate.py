"""What `seqloom translate` says of standard input and output."""

import sys

import pytest

from models.errors import UserError
from pipeline.translate import translate_standard_input


@pytest.mark.parametrize("name", ["input", "output"])
def test_a_closed_standard_stream_is_told(monkeypatch, name):
    monkeypatch.setattr(sys, f"std{name.removesuffix('put')}", None)
    with pytest.raises(UserError, match=f"standard {name} is closed"):
        translate_standard_input("127.0.0.1:1", False, None, "translation", 1, 1.0)
