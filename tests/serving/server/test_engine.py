import json
import os
import pathlib
import subprocess
import sys

import pytest

from models.errors import UserError
from serving.server import engine
from serving.server.options import ServerOptions

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A `tensorflow_model_server` on PATH that only writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / engine.PROGRAM
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$0" "$@" > {tmp_path}/called\nexit 7\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return program


@pytest.fixture
def no_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_embedded_engine_looks_for_no_program(program):
    assert engine.find_program("embedded") is None


@pytest.mark.parametrize("asked", ["tensorflow", "auto"])
def test_the_program_on_path_is_found(program, asked):
    assert engine.find_program(asked) == program


def test_without_the_program_auto_is_embedded(no_program):
    assert engine.find_program("auto") is None


def test_without_the_program_tensorflow_is_a_mistake(no_program):
    with pytest.raises(UserError, match="tensorflow_model_server is not on PATH.*2.20.0"):
        engine.find_program("tensorflow")


def test_a_missing_base_path_is_told_whatever_the_engine(program, tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        engine.serve(ServerOptions("m", tmp_path / "gone"), "tensorflow")


def test_the_program_takes_the_place_of_this_process(program, tmp_path):
    code = (
        "import pathlib, sys\n"
        "from serving.server import engine\n"
        "from serving.server.options import ServerOptions\n"
        "options = ServerOptions('m', pathlib.Path('models'), port=8600, rest_api_port=0,\n"
        "    file_system_poll_wait_seconds=0.2, address_file=pathlib.Path('addresses'))\n"
        "engine.serve(options, 'auto')\n"
    )
    (tmp_path / "models").mkdir()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 7, done.stderr
    called, *arguments = (tmp_path / "called").read_text().splitlines()
    addresses = json.loads((tmp_path / "addresses").read_text())
    assert called == str(program)
    assert addresses["grpc"] == "localhost:8600"
    assert arguments == [
        "--port=8600",
        f"--rest_api_port={addresses['rest'].split(':')[1]}",
        "--model_name=m",
        f"--model_base_path={tmp_path}/models",
        "--file_system_poll_wait_seconds=1",
        "--rest_api_timeout_in_ms=30000",
        "--rest_api_enable_cors_support=false",
        "--max_num_load_retries=0",
        "--tensorflow_intra_op_parallelism=0",
        "--tensorflow_inter_op_parallelism=0",
    ]
    assert "listens on every address" in done.stderr
    assert not [line for line in done.stderr.splitlines() if line.endswith("| tensorflow")]
