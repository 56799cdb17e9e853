"""What Slurm is given, and what tasks make of its variables; tests/cluster really runs it."""

import json
import pathlib
import subprocess

import pytest

from models.errors import UserError
from pipeline.experiment import SubmitSection
from pipeline.submit.contract import STAGES, Job, JobHandle
from pipeline.submit.slurm import SlurmLauncher
from pipeline.submit.slurm_commands import run_command
from pipeline.submit.slurm_script import outcome_path, stage_script
from pipeline.submit.slurm_task import tasks_per_node, tf_config


def launcher(**options):
    return SlurmLauncher(SubmitSection(to="slurm", slurm=options))


def job(folder="/shared/my run", stages=STAGES, **changes):
    name = "20261130-085743-62eb"
    root = pathlib.Path(folder)
    values = dict(
        id=name,
        folder=root / "jobs" / name,
        directory=pathlib.Path("/home/some one"),
        workspace=root,
        stages=stages,
        workers=3,
        gpus_per_worker=2,
        max_restarts=4,
        grace_seconds=30.0,
        environment={"GREETING": "it's here"},
    )
    return Job(**{**values, **changes})


def settings(script):
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if "#SBATCH" in line]
    return dict(line.partition("=")[::2] for line in lines)


def test_a_script_asks_for_what_the_experiment_says():
    options = launcher(
        partition="gpu",
        account="team",
        time_limit="08:00:00",
        save_seconds=90,
        cpus_per_worker=4,
        memory_per_worker="8G",
        options=["--exclude=n7"],
    ).options.slurm
    asked = settings(stage_script(job(), "train", options))
    assert asked["ntasks"] == "3" and asked["gpus-per-task"] == "2"
    assert asked["signal"] == "B:USR1@90"
    assert (asked["partition"], asked["account"], asked["time"]) == ("gpu", "team", "08:00:00")
    assert asked["mem-per-cpu"] == "2048M" and asked["cpus-per-task"] == "4"
    assert asked["exclude"] == "n7" and "requeue" in asked and asked["open-mode"] == "append"
    others = settings(stage_script(job(), "evaluate", options))
    assert others["ntasks"] == "1"
    assert "gpus-per-task" not in others and "signal" not in others


@pytest.mark.parametrize("stage", STAGES)
def test_a_script_is_one_of_bash_whatever_its_paths(stage):
    script = stage_script(job(), stage, launcher().options.slurm)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert "cd '/home/some one' || exit 1" in script
    assert "export GREETING='it'\"'\"'s here'" in script
    assert "srun --kill-on-bad-exit=1" in script
    assert f"run '/shared/my run/jobs/{job().id}/experiment.yaml' --stage {stage} &" in script


def test_the_plan_shows_scripts_and_what_waits_for_what():
    plan = launcher().plan(job())
    assert plan.count("#!/bin/bash") == 4
    for before in STAGES[:-1]:
        assert f"--dependency=afterok:NUMBER-OF-{before.upper()} --kill-on-invalid-dep=yes" in plan
    alone = launcher().plan(job(stages=("train",)))
    assert "--dependency" not in alone


def look_up(*command):
    if command[2] == "hostnames":
        return "n1\nn2\nn3\n"
    return f"NodeName={command[-1]} Arch=x86_64 NodeAddr=10.0.0.{command[-1][1:]} Port=1"


VARIABLES = {
    "SLURM_JOB_ID": "1200",
    "SLURM_STEP_NODELIST": "n[1-3]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_PROCID": "3",
}


def test_workers_are_told_from_the_variables_of_a_step():
    config = json.loads(tf_config(VARIABLES, 23_000, look_up))
    workers = config["cluster"]["worker"]
    assert config["task"] == {"type": "worker", "index": 3}
    hosts = [each.partition(":")[0] for each in workers]
    assert hosts == ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3"]
    ports = [int(each.partition(":")[2]) for each in workers]
    assert ports == list(range(ports[0], ports[0] + 5))
    other = json.loads(tf_config({**VARIABLES, "SLURM_JOB_ID": "1201"}, 23_000, look_up))
    assert not set(other["cluster"]["worker"]) & set(workers)


def test_ports_stay_below_the_last_one():
    for number in range(0, 100_000, 977):
        config = tf_config({**VARIABLES, "SLURM_JOB_ID": str(number)}, 64_000, look_up)
        ports = [int(each.rpartition(":")[2]) for each in json.loads(config)["cluster"]["worker"]]
        assert len(set(ports)) == 5 and 64_000 <= min(ports) and max(ports) < 65_000


def test_variables_that_do_not_fit_are_told():
    with pytest.raises(UserError, match="says it has 7 tasks"):
        tf_config({**VARIABLES, "SLURM_STEP_NUM_TASKS": "7"}, 23_000, look_up)
    with pytest.raises(UserError, match="expected such as 2"):
        tasks_per_node("two")
    assert tasks_per_node("1") == [1]


def test_a_machine_without_slurm_is_told():
    with pytest.raises(UserError, match="no-such-sbatch: no such program on PATH"):
        run_command("no-such-sbatch")


@pytest.mark.parametrize(
    ("left", "state"), [("0 1", "done"), ("2 0", "failed"), ("75 4", "failed")]
)
def test_a_stage_that_has_ended_is_known_without_slurm(tmp_path, left, state):
    """As long after its end, when Slurm has forgotten it."""
    made = job(str(tmp_path), ("train",))
    made.folder.mkdir(parents=True)
    outcome_path(made, "train").write_text(left + "\n")
    handle = JobHandle(made, "slurm", "now", {"numbers": {"train": "7"}})
    status = launcher().status(handle)
    assert (status.state, status.stage, status.restarts) == (state, "train", int(left[-1]))
