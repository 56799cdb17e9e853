import os
import pathlib
import signal
import time

import pytest

from models.errors import UserError
from pipeline.experiment import ClusterSection
from pipeline.prepare.engine import beam
from pipeline.prepare.runner import PipelineRun
from pipeline.prepare.runners.local import worker_count

PROCESSES = {"running_mode": "multi_processing", "workers": 2}


def workers_running():
    """Ids of the worker processes of this very process."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"pipeline.prepare.worker" in command and int(parent) == os.getpid():
            found.append(int(folder.name))
    return found


def counting(number):
    beam.metrics.Metrics.counter("prepare", "elements").inc()
    return number


def failing(number):
    raise ArithmeticError(f"number {number}")


def sleeping(number):
    time.sleep(60)


def numbers(step):
    return lambda pipeline: pipeline | beam.Create(range(10)) | beam.Map(step)


@pytest.fixture
def make_run(tmp_path):
    return lambda **cluster: PipelineRun(ClusterSection(**cluster), tmp_path)


@pytest.mark.parametrize(
    "cluster",
    [
        PROCESSES,
        {"running_mode": "multi_threading", "workers": 2},
        {"running_mode": "in_memory"},
        {"running_mode": "in_memory", "runner": "DirectRunner"},
    ],
)
def test_counters_come_back(make_run, cluster):
    assert make_run(**cluster).run(numbers(counting), lambda: None) == {"elements": 10}
    assert workers_running() == []


@pytest.mark.parametrize("cluster", [PROCESSES, {"running_mode": "in_memory"}])
def test_a_failing_step_says_so_and_leaves_no_worker(make_run, cluster, capfd):
    with pytest.raises(RuntimeError, match="number"):
        make_run(**cluster).run(numbers(failing), lambda: None)
    assert workers_running() == []
    assert capfd.readouterr().err == ""


def when_workers_run(action):
    """A function to poll with: does `action` once, when both workers have been running a while."""
    state = {}

    def poll():
        if len(workers_running()) == 2:
            state.setdefault("since", time.monotonic())
        if "since" in state and time.monotonic() - state["since"] > 1.0 and "done" not in state:
            state["done"] = True
            action()

    return poll


def test_a_killed_worker_ends_the_run(make_run, capfd):
    def kill_one():
        os.kill(workers_running()[0], signal.SIGKILL)

    with pytest.raises(RuntimeError, match="a worker process ended with status -9"):
        make_run(**PROCESSES).run(numbers(sleeping), when_workers_run(kill_one))
    assert workers_running() == []
    assert capfd.readouterr().err == ""


def test_ctrl_c_ends_the_run_and_its_workers(make_run, capfd):
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        make_run(**PROCESSES).run(numbers(sleeping), when_workers_run(interrupt))
    assert workers_running() == []
    assert capfd.readouterr().err == ""


def test_dask_is_refused_by_name(make_run):
    for name in ("DaskRunner", "apache_beam.runners.dask.dask_runner.DaskRunner"):
        with pytest.raises(UserError, match="cluster.runner: .*DaskRunner is refused.*loses"):
            make_run(runner=name)


def test_an_unknown_runner_is_told_to_the_user(make_run):
    with pytest.raises(UserError, match="cluster.runner: SlowRunner"):
        make_run(runner="SlowRunner")


def test_an_option_that_beam_cannot_read_is_told_to_the_user(make_run, capfd):
    with pytest.raises(UserError, match="cluster.beam_options: .*direct_num_workers"):
        make_run(beam_options=["--direct_num_workers=many"])
    assert capfd.readouterr().err == ""


def test_an_option_that_the_local_runner_does_not_know_is_refused(make_run):
    with pytest.raises(UserError, match="no option --jobname for the runner local"):
        make_run(beam_options=["--job_name=mine", "--jobname=mine"])


def test_the_experiment_s_own_flags_win(make_run):
    run = make_run(
        running_mode="in_memory", beam_options=["--job_name=mine", "--direct_num_workers=3"]
    )
    options = run._options.get_all_options()
    assert options["job_name"] == "mine"
    assert options["direct_num_workers"] == 3


def test_workers_are_as_many_as_asked_or_one_a_core():
    assert worker_count(ClusterSection(workers=5)) == 5
    assert worker_count(ClusterSection(workers=5, running_mode="in_memory")) == 1
    assert worker_count(ClusterSection()) == len(os.sched_getaffinity(0))
