"""The stage on a job service and a worker pool that are processes of their own."""

import contextlib
import socket
import subprocess
import sys
import time

import pytest
from command import environment

DEADLINE = 120  # seconds that a process may take to listen


def free_port():
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


def wait_for(port, process):
    started = time.monotonic()
    while time.monotonic() - started < DEADLINE:
        assert process.poll() is None, "it ended instead of listening"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on {port}")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Ports of the job service and of the worker pool."""
    folder = tmp_path_factory.mktemp("service")
    job_port, pool_port = free_port(), free_port()
    programs = {
        job_port: ["apache_beam.runners.portability.local_job_service_main", f"-p={job_port}"],
        pool_port: ["apache_beam.runners.worker.worker_pool_main", f"--service_port={pool_port}"],
    }
    with contextlib.ExitStack() as stack:
        for port, (module, *flags) in programs.items():
            log = stack.enter_context((folder / f"{port}.log").open("wb"))
            process = subprocess.Popen(
                [sys.executable, "-m", module, *flags],
                stdout=log,
                stderr=log,
                cwd=folder,
                # The pool starts its workers as `python`, which PATH has to find.
                env=environment(),
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            wait_for(port, process)
        yield job_port, pool_port


def test_the_files_are_those_of_the_local_runner(
    service, make_experiment, make_pairs, write_tsv, run
):
    pairs = make_pairs(5000)
    train = [{"format": "tsv", "path": write_tsv([*pairs, pairs[0], ("", "vide")])}]

    def files(name, **cluster):
        experiment = make_experiment(train, data={"shards": 3}, cluster=cluster)
        workspace, manifest, printed = run(experiment, name)
        assert "dropped: duplicate" in printed
        return {path.name: path.read_bytes() for path in workspace.data.iterdir()}

    job_port, pool_port = service
    flags = [
        f"--job_endpoint=127.0.0.1:{job_port}",
        "--environment_type=EXTERNAL",
        f"--environment_config=127.0.0.1:{pool_port}",
    ]
    assert files(
        "portable", runner="portable", running_mode="multi_processing", beam_options=flags
    ) == files("local")
