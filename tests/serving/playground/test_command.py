"""The playground as the command starts it."""

import json
import re
import shutil
import signal
import subprocess
import urllib.request

import pytest

from models.errors import UserError
from pipeline.playground import serve_with_playground
from serving.server.options import ServerOptions
from tests.command import ROOT, command, environment, seqloom
from tests.serving.server import tiny_models


def address_in(process):
    """The playground's address, as soon as it is told."""
    for line in process.stdout:
        if found := re.match(rb"Playground: (\S+)", line):
            return found[1].decode()
    raise AssertionError(f"exit status {process.wait()}, and no playground")


def read(url, body=None):
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as response:
        return response.read()


def test_a_server_and_its_playground_start_and_end_together(tmp_path):
    tiny_models.save(tmp_path / "translation" / "1")
    flags = ["--model_name=translation", f"--model_base_path={tmp_path / 'translation'}"]
    flags += ["--port=0", "--rest-api-port=0", "--playground", "--playground-port=0"]
    process = subprocess.Popen(
        command("serve", *flags), stdout=subprocess.PIPE, cwd=ROOT, env=environment()
    )
    try:
        page = address_in(process)
        assert b"<!doctype html>" in read(page)
        answer = read(f"{page}/v1/models/translation:predict", b'{"inputs": ["hello"]}')
        assert json.loads(answer)["outputs"]["translation"] == ["HELLO"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()


def test_a_playground_runs_beside_another_server(tiny_server):
    given = ("--server", tiny_server.addresses.rest, "--port", "0")
    process = subprocess.Popen(
        command("playground", *given), stdout=subprocess.PIPE, cwd=ROOT, env=environment()
    )
    try:
        page = address_in(process)
        assert b'"state": "AVAILABLE"' in read(f"{page}/v1/models/translation")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()


def test_an_address_that_is_none_is_told():
    assert b"not the address of a server" in seqloom("playground", "--server=a b", status=2).stderr


def test_the_real_server_takes_a_playground_beside_it(tmp_path, monkeypatch):
    program = tmp_path / "tensorflow_model_server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert shutil.which(program.name)
    with pytest.raises(UserError, match="seqloom playground --server localhost:8501"):
        serve_with_playground(ServerOptions("m", tmp_path), "auto", 0)
