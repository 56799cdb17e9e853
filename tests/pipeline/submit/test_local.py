"""Jobs of this machine: what they are given, how they go on, and how they end."""

import json
import os
import signal

import pytest

from pipeline.experiment import SubmitSection
from pipeline.submit.following import follow_job
from pipeline.submit.gang import variables_of_workers
from pipeline.submit.local import LocalLauncher
from tests.pipeline.submit.stand_in import (
    finish,
    is_alive,
    make_job,
    needs_proc,
    start,
    wait_until,
)

SLEEP = "print(os.getpid(), flush=True); time.sleep(600)"
STUBBORN = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


def lines(handle, launcher, of=""):
    return [line for line in launcher.logs(handle, follow=False) if line.startswith(of)]


def printed_processes(handle, launcher, count):
    """Numbers of the processes, once all have printed theirs."""

    def numbers():
        return [int(line.split()[-1]) for line in lines(handle, launcher, "train-")]

    wait_until(lambda: len(numbers()) == count)
    return numbers()


def test_stages_run_in_turn_and_only_train_as_a_gang(tmp_path):
    job = make_job(tmp_path, "print(stage, worker)", ("prepare", "train", "export"), workers=2)
    handle, launcher = start(job)
    status = finish(handle, launcher)
    assert (status.state, status.stage, status.restarts) == ("done", "export", 0)
    assert [line for line in lines(handle, launcher) if not line.startswith("job:")] == [
        "prepare-0: prepare 0",
        "train-0: train 0",
        "train-1: train 1",
        "export-0: export 0",
    ]


def test_each_worker_is_told_its_place_and_its_gpus(tmp_path):
    job = make_job(tmp_path, "", workers=2, gpus_per_worker=2)
    first, second = variables_of_workers(job, "train", ["a:1", "b:2"])
    assert (first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]) == ("0,1", "2,3")
    assert json.loads(second["TF_CONFIG"]) == {
        "cluster": {"worker": ["a:1", "b:2"]},
        "task": {"type": "worker", "index": 1},
    }
    assert variables_of_workers(make_job(tmp_path / "b", ""), "train", ())[0].keys() == {
        "STAND_IN",
        "PYTHONPATH",
        "CUDA_VISIBLE_DEVICES",
    }


def test_a_gang_is_started_again_until_it_succeeds(tmp_path):
    program = (
        "import pathlib; mark = pathlib.Path(f'tried{worker}'); tried = mark.exists()\n"
        "mark.touch(); sys.exit(0 if tried else 75)"
    )
    handle, launcher = start(make_job(tmp_path, program, workers=2))
    assert finish(handle, launcher)[:3] == ("done", "train", 1)
    told = "process 0 exited 75, process 1 exited 75; they ask to be started again"
    assert any(told in line for line in lines(handle, launcher, "job:"))


def test_restarts_have_a_limit(tmp_path, capsys):
    handle, launcher = start(make_job(tmp_path, "print('begun'); sys.exit(1)"))
    assert follow_job(handle, launcher) == 1
    shown = capsys.readouterr().out
    assert shown.count("train-0: begun") == 3
    assert "Job job is failed: process 0 exited 1; started again 2 times" in shown


def test_a_folder_with_a_package_of_our_name_is_no_matter(tmp_path):
    package = tmp_path / "pipeline"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('not ours')")
    handle, launcher = start(make_job(tmp_path, "print(stage)"))
    assert finish(handle, launcher).state == "done"
    assert "train-0: train" in lines(handle, launcher)


def test_who_looks_at_a_job_may_leave(tmp_path, capsys, monkeypatch):
    handle, launcher = start(make_job(tmp_path, SLEEP))

    def interrupted(handle, follow):
        yield "step 1"
        raise KeyboardInterrupt

    monkeypatch.setattr(launcher, "logs", interrupted)
    assert follow_job(handle, launcher) == 130
    assert "step 1\n\nJob job goes on; `seqloom logs --follow`" in capsys.readouterr().out
    assert launcher.status(handle).state in ("waiting", "running")
    launcher.cancel(handle)


def test_a_mistake_of_the_users_is_not_repeated(tmp_path):
    handle, launcher = start(make_job(tmp_path, "sys.exit(2)", ("prepare", "train")))
    status = finish(handle, launcher)
    assert status[:3] == ("failed", "prepare", 0)
    assert not lines(handle, launcher, "train-")


@needs_proc
def test_when_one_is_killed_all_end_with_what_they_have_started(tmp_path):
    program = (
        "import subprocess; child = subprocess.Popen(['sleep', '600'])\n"
        f"print(child.pid); {STUBBORN}"
    )
    handle, launcher = start(make_job(tmp_path, program, workers=2, max_restarts=0))
    children, processes = [], []
    for child, process in zip(*[iter(printed_processes(handle, launcher, 4))] * 2, strict=True):
        children.append(child)
        processes.append(process)
    os.kill(processes[1], signal.SIGKILL)
    status = finish(handle, launcher)
    assert status.state == "failed"
    assert "process 1 was ended by SIGKILL" in status.detail
    wait_until(lambda: not any(map(is_alive, [*processes, *children])))


@needs_proc
@pytest.mark.parametrize("program", [SLEEP, STUBBORN], ids=["willing", "stubborn"])
def test_cancelling_ends_all_processes(tmp_path, program):
    handle, launcher = start(make_job(tmp_path, program, ("train", "export"), workers=2))
    processes = printed_processes(handle, launcher, 2)
    launcher.cancel(handle)
    assert launcher.status(handle).state == "cancelled"
    assert not any(map(is_alive, processes))
    assert not lines(handle, launcher, "export-")
    launcher.cancel(handle)  # Nothing to do.


def test_a_job_may_be_cancelled_as_soon_as_it_is_submitted(tmp_path):
    handle, launcher = start(make_job(tmp_path, SLEEP))
    launcher.cancel(handle)
    assert launcher.status(handle).state == "cancelled"


@needs_proc
def test_processes_do_not_outlive_the_one_that_looks_after_them(tmp_path):
    handle, launcher = start(make_job(tmp_path, SLEEP, workers=2))
    processes = printed_processes(handle, launcher, 2)
    os.kill(handle.native["process"], signal.SIGKILL)
    assert finish(handle, launcher).state == "lost"
    wait_until(lambda: not any(map(is_alive, processes)))


def test_the_plan_names_every_process_and_starts_none(tmp_path):
    job = make_job(tmp_path, "print(1)", ("prepare", "train"), workers=2)
    plan = LocalLauncher(SubmitSection()).plan(job)
    assert plan.count("--stage prepare") == 1 and plan.count("--stage train") == 2
    assert "train-1.log" in plan and '"index": 1' in plan
    assert not [*job.logs.iterdir()]
