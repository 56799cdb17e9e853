"""What `seqloom translate` says of standard input and output."""

import io
import sys
import types

import pytest

from models.errors import UserError
from pipeline.translate import translate_standard_input
from serving.server.main import Server
from serving.server.options import ServerOptions
from tests.serving.server import tiny_models


@pytest.mark.parametrize("name", ["input", "output"])
def test_a_closed_standard_stream_is_told(monkeypatch, name):
    monkeypatch.setattr(sys, f"std{name.removesuffix('put')}", None)
    with pytest.raises(UserError, match=f"standard {name} is closed"):
        translate_standard_input("127.0.0.1:1", False, None, "translation", 1, 1.0)


@pytest.fixture
def translated(monkeypatch):
    """A function that translates a line with a prefix, and gives what was written."""

    def translate(server="", rest=False, model=None, prefix="Z"):
        output = io.BytesIO()
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b"a\n")))
        monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(buffer=output))
        translate_standard_input(server, rest, model, "translation", 1, 20.0, prefix)
        return output.getvalue()

    return translate


def test_a_model_that_takes_no_prefix_is_told_in_one_message(translated, tmp_path):
    version = tiny_models.save(tmp_path / "translation/1")
    options = ServerOptions("translation", version.parent, port=0, rest_api_port=0)
    with Server(options) as server:
        ways = (
            {"server": server.addresses.grpc},
            {"server": server.addresses.rest, "rest": True},
            {"model": version},
        )
        for way in ways:
            with pytest.raises(UserError, match=r"has no signature 'complete'.*0 lines are done"):
                translated(**way)
            assert translated(**way, prefix="") == b"A\n"


def test_a_prefix_that_is_no_utf8_is_told_before_anything_is_asked(translated):
    with pytest.raises(UserError, match=r"--prefix 'a\\udcff': not UTF-8"):
        translated(server="127.0.0.1:1", prefix="a\udcff")
