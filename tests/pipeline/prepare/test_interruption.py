import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

import pytest

ROOT = pathlib.Path(__file__).parents[3]

PROGRAM = """
import pathlib, sys
import rich.console
from pipeline.experiment import Experiment
from pipeline.prepare.run import prepare
from pipeline.workspace import Workspace
experiment = Experiment(
    name="test",
    data={"train": [{"format": "tsv", "path": sys.argv[1]}]},
    vocabulary={"source_size": 200, "target_size": 200},
    cluster={"workers": 2},
)
manifest = prepare(experiment, Workspace(pathlib.Path(sys.argv[2])), rich.console.Console())
print("tensorflow" in sys.modules)
"""


@pytest.fixture
def start(tmp_path, write_tsv, make_pairs):
    """Starts the stage in a process of its own, elsewhere, as the command would."""
    corpus = write_tsv(make_pairs(20_000))
    elsewhere = tmp_path / "a folder"
    elsewhere.mkdir()
    started = []

    def go():
        mark = uuid.uuid4().hex
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, corpus, str(tmp_path / "run")],
            cwd=elsewhere,
            env=os.environ | {"PYTHONPATH": str(ROOT), "SEQLOOM_TEST_MARK": mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process, mark

    yield go
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def marked(mark):
    """Processes that carry a mark in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def writing(folder):
    return lambda: any((folder / ".data.partial/.scratch/milestones").glob("write *"))


def test_a_killed_run_publishes_nothing_leaves_no_worker_and_the_next_succeeds(start, tmp_path):
    process, mark = start()
    wait_until(writing(tmp_path / "run"))
    assert len(marked(mark)) == 3
    process.kill()
    process.communicate()
    wait_until(lambda: not marked(mark), seconds=10)
    assert not (tmp_path / "run/data").exists()

    process, mark = start()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert output.splitlines()[-1] == "False"
    assert (tmp_path / "run/data/manifest.json").exists()
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["data", "experiment.yaml"]
    assert not marked(mark)


def test_ctrl_c_leaves_neither_files_nor_workers(start, tmp_path):
    process, mark = start()
    wait_until(writing(tmp_path / "run"))
    os.killpg(process.pid, signal.SIGINT)  # As a terminal does: to the workers too.
    output, _ = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in output.splitlines()[-1]
    assert "Traceback" not in output.partition("Traceback")[2]
    assert list((tmp_path / "run").iterdir()) == []
    assert not marked(mark)
