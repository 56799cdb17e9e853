"""`open_tensorboard`: serves the logs of a run, and tells mistakes in one message."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from models.errors import UserError
from pipeline.monitor.event_log import EventLog
from pipeline.monitor.tensorboard import open_tensorboard

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def logs(tmp_path):
    log = EventLog(tmp_path / "logs")
    log.scalar("train/loss", 1.5, 10)
    log.close()
    return tmp_path / "logs"


def test_it_serves_the_curves_until_interrupted(logs):
    code = (
        "import sys; from pipeline.monitor.tensorboard import open_tensorboard;"
        "sys.exit(open_tensorboard(sys.argv[1], '127.0.0.1', 0))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(logs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        address = re.search(r"http://\S+?:\d+/", process.stdout.readline()).group()
        with urllib.request.urlopen(f"{address}data/runs", timeout=60) as answer:
            assert json.load(answer) == ["."]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_missing_logs_are_a_users_mistake(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=f"{name}: no TensorBoard logs there"):
        open_tensorboard(tmp_path / name)


def test_a_port_in_use_is_a_users_mistake(logs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            open_tensorboard(logs, "127.0.0.1", port)
