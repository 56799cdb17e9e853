"""Jobs whose processes run a line of Python in place of a stage, so that they take no time."""

import os
import time

import pytest

from pipeline.experiment import SubmitSection
from pipeline.submit.contract import ENDED, Job, JobHandle
from pipeline.submit.jobs import write_handle
from pipeline.submit.local import LocalLauncher

COMMAND = """\
import json, os, signal, sys, time
stage = sys.argv[-1] if sys.argv[1] == "run" else sys.argv[1]
worker = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"]
exec(os.environ["STAND_IN"])
"""


def make_job(folder, program, stages=("train",), workers=1, **changes):
    """A job whose processes run a program, which may read `stage` and `worker`."""
    package = folder / "stand_in/pipeline"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text(COMMAND)
    values = {
        "id": "job",
        "folder": folder / "run/jobs/job",
        "directory": folder,
        "workspace": folder / "run",
        "stages": stages,
        "workers": workers,
        "gpus_per_worker": 0,
        "max_restarts": 2,
        "grace_seconds": 1.0,
        "environment": {"STAND_IN": program, "PYTHONPATH": str(package.parent)},
    }
    job = Job(**{**values, **changes})
    job.logs.mkdir(parents=True)
    return job


def start(job):
    """A started job and its launcher."""
    launcher = LocalLauncher(SubmitSection())
    write_handle(JobHandle(job, "local", "now", {}))
    handle = JobHandle(job, "local", "now", launcher.submit(job))
    return handle, launcher


def finish(handle, launcher):
    """How a job has ended."""
    wait_until(lambda: launcher.status(handle).state in ENDED)
    return launcher.status(handle)


def wait_until(true, seconds=60.0):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def is_alive(process):
    """Whether a process runs; one that ended and that nobody has asked about does not."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux's /proc")
