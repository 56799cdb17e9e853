"""TensorFlow Serving's flags, alone and through the command line."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from models.errors import UserError
from serving.server.flags import FLAGS, parse
from serving.server.options import ServerOptions

ROOT = pathlib.Path(__file__).parents[3]


def command(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "pipeline.cli", "serve", *map(str, arguments)]
    return subprocess.Popen(
        line, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def complaint(*arguments):
    process = command(*arguments)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2, errors
    return " ".join(errors.split())


def test_values_are_read_by_the_type_of_their_option():
    flags = [
        "--model_name=m",
        "--model_base_path=/models/m",
        "--model_config_file_poll_wait_seconds=5",
        "--allow_version_labels_for_unavailable_models",
        "--load_retry_interval_micros=1500000",
        "--rest_api_timeout_in_ms=100",
        "--max_num_load_retries=1",
        "--max_num_load_retries=2",
    ]
    assert parse(flags) == {
        "model_name": "m",
        "base_path": pathlib.Path("/models/m"),
        "model_config_file_poll_wait_seconds": 5.0,
        "allow_version_labels_for_unavailable_models": True,
        "load_retry_interval_seconds": 1.5,
        "rest_api_timeout_in_ms": 100,
        "max_num_load_retries": 2,
    }
    assert parse(["--allow_version_labels_for_unavailable_models=false"]) == {
        "allow_version_labels_for_unavailable_models": False
    }


def test_every_flag_sets_an_option():
    fields = ServerOptions.__dataclass_fields__
    assert {flag.option for flag in FLAGS.values()} <= fields.keys()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--model_nmae=m", "unknown argument: --model_nmae=m; known .*--model_name"),
        ("-x", "unknown argument: -x"),
        ("--max_num_load_retries=many", "got 'many', expected --max_num_load_retries=WHOLE_NUMBER"),
        ("--max_num_load_retries", "got '', expected --max_num_load_retries=WHOLE_NUMBER"),
        ("--rest_api_num_threads=-1", "got '-1', expected"),
        ("--file_system_poll_wait_seconds=nan", "got 'nan', expected"),
        ("--model_base_path=", "got '', expected --model_base_path=FOLDER"),
        (
            "--allow_version_labels_for_unavailable_models=perhaps",
            "got 'perhaps', expected .*=true or false",
        ),
    ],
)
def test_wrong_flags_are_told(argument, message):
    with pytest.raises(UserError, match=message):
        parse([argument])


def test_the_command_line_serves_by_flags_alone(base_path, tmp_path):
    addresses = tmp_path / "addresses.json"
    process = command(
        f"--model_base_path={base_path}",
        "--model_name=renamed",
        "--port=0",
        "--rest_api_port=0",
        "--engine=embedded",
        f"--address-file={addresses}",
    )
    try:
        for _ in range(1200):
            if addresses.exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        rest = json.loads(addresses.read_text())["rest"]
        request = urllib.request.Request(
            f"http://{rest}/v1/models/renamed:predict", b'{"instances": ["a"]}'
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            assert json.load(response)["predictions"][0]["translation"] == "A"
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_mistakes_on_the_command_line_are_status_2(tmp_path):
    config = tmp_path / "models.config"
    config.write_text("model_config_lst {}")
    assert "unknown argument: --model_nmae=m" in complaint("--model_nmae=m")
    told = complaint("--engine=embedded", f"--model_config_file={config}", "--port=0")
    assert "Invalid protobuf file" in told
    both = complaint(ROOT / "configs" / "demo.yaml", f"--model_config_file={config}")
    assert "an experiment and --model_config_file were both given" in both
