"""Jobs as a workspace keeps them, and the verbs' mistakes."""

import io
import shutil
import typing

import pytest
import rich.console
from command import seqloom
from typer.testing import CliRunner

from models.errors import UserError
from pipeline import cli
from pipeline.experiment import SubmitSection
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.submit import log_files
from pipeline.submit.contract import STAGES, JobHandle, Launcher, Status
from pipeline.submit.following import overview
from pipeline.submit.jobs import find_job, list_jobs, make_job, options_of, stages_of, submit_job
from pipeline.submit.log_files import read_logs
from pipeline.submit.members import LAUNCHERS, launcher_of
from pipeline.submit.overlap import refuse_overlap


class Noting(Launcher):
    """Starts nothing."""

    refuses: type[BaseException] | None = None

    def plan(self, job):
        return ""

    def submit(self, job):
        if self.refuses:
            raise self.refuses("no room")
        return {"number": 7}

    def status(self, handle):
        return Status("waiting")

    def logs(self, handle, follow):
        return iter(())

    def cancel(self, handle):
        pass


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(
        f"name: small\nworkspace: {tmp_path}/run\n"
        "data: {train: [{format: tsv, path: a.tsv}]}\n"
        "submit: {workers: 3, environment: {A: b}}\n"
    )
    return load_experiment(path)


def test_a_job_is_kept_as_it_was_submitted(experiment):
    workspace = workspace_of(experiment)
    job = make_job(experiment, ("train",))
    assert (job.workers, job.processes("prepare"), job.environment) == (3, 1, {"A": "b"})
    handle = submit_job(experiment, job, "local", Noting(experiment.submit))
    assert handle.native == {"number": 7}
    assert list_jobs(workspace) == [handle]
    assert find_job(workspace) == find_job(workspace, job.id[:4]) == handle
    assert options_of(handle.job) == experiment.submit
    assert load_experiment(job.experiment).data == experiment.data


@pytest.mark.parametrize("refusal", [UserError, OSError, KeyboardInterrupt])
def test_a_refused_job_leaves_nothing(experiment, refusal):
    launcher = Noting(experiment.submit)
    launcher.refuses = refusal
    with pytest.raises(refusal, match="no room"):
        submit_job(experiment, make_job(experiment), "local", launcher)
    assert not list_jobs(workspace_of(experiment))


def test_jobs_that_are_not_there_or_not_readable_are_told(experiment):
    workspace = workspace_of(experiment)
    with pytest.raises(UserError, match="seqloom submit"):
        find_job(workspace)
    handle = submit_job(experiment, make_job(experiment), "local", Noting(experiment.submit))
    with pytest.raises(UserError, match=f"no job 'x'.*{handle.job.id}"):
        find_job(workspace, "x")
    submit_job(experiment, make_job(experiment), "local", Noting(experiment.submit))
    with pytest.raises(UserError, match="several jobs"):
        find_job(workspace, "2")
    (handle.job.folder / "job.json").write_text('{"job": {}}')
    with pytest.raises(UserError, match=r"job\.json: job\.id: .* another version"):
        list_jobs(workspace)


def test_a_stage_is_not_run_by_two_jobs_at_once(experiment, monkeypatch):
    """What is up to date is left out of a job of all stages, and one alone is run again."""
    monkeypatch.setitem(LAUNCHERS, "local", Noting)
    workspace = workspace_of(experiment)
    first = submit_job(experiment, make_job(experiment), "local", Noting(experiment.submit))
    assert first.job.arguments("train")[2:] == ("--stage", "train")
    second = make_job(experiment, ("train",))
    assert second.arguments("train") == ("train", str(second.experiment))
    told = rf"job {first.job.id}, which is waiting, has the same stages \(train\)"
    with pytest.raises(UserError, match=told):
        refuse_overlap(second, list_jobs(workspace))
    monkeypatch.setattr(Noting, "status", lambda *_: Status("done"))
    refuse_overlap(second, list_jobs(workspace))
    monkeypatch.setattr(Noting, "status", lambda *_: Status("running", "export"))
    other = submit_job(
        experiment, make_job(experiment, ("export",)), "local", Noting(experiment.submit)
    )
    refuse_overlap(second, [other])


def test_jobs_are_shown_whatever_becomes_of_one(experiment, monkeypatch, tmp_path):
    """A backend that is not there, and a job that was never handed over."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(LAUNCHERS, "local", Noting)
    first = submit_job(experiment, make_job(experiment), "local", Noting(experiment.submit))
    made = make_job(experiment, ("train",))
    shutil.copytree(first.job.folder, made.folder)
    far = JobHandle(made, "slurm", "now", {"numbers": {"train": "7"}})
    begun = JobHandle(made, "local", "now", {})
    shown = io.StringIO()
    rich.console.Console(file=shown, width=80, soft_wrap=True).print(overview([first, far, begun]))
    _, *rows, refusal, begun_only = shown.getvalue().splitlines()
    assert [each.split() for each in rows] == [
        [first.job.id, "local", "all", "3", "waiting", "0"],
        [made.id, "slurm", "train", "3", "unknown"],
        [made.id, "local", "train", "3", "unknown"],
    ]
    assert refusal.startswith(f"{made.id}: scontrol: no such program")
    assert begun_only.startswith(f"{made.id}: submitting job {made.id} was interrupted")
    refuse_overlap(made, [far, begun])
    with pytest.raises(UserError, match=f"interrupted; delete .*{made.id}"):
        launcher_of(begun)


@pytest.mark.parametrize("ends", [True, False])
def test_cancelling_says_whether_it_is_done(experiment, monkeypatch, ends):
    """Slurm is told, and has processes end in their time."""
    monkeypatch.setitem(LAUNCHERS, "local", Noting)
    handle = submit_job(experiment, make_job(experiment), "local", Noting(experiment.submit))
    after = Status("cancelled" if ends else "running")
    monkeypatch.setattr(
        Noting, "cancel", lambda *_: monkeypatch.setattr(Noting, "status", lambda *_: after)
    )
    done = CliRunner().invoke(cli.app, ["cancel", str(handle.job.experiment), handle.job.id[:12]])
    assert done.exit_code == 0, done.output
    expected = "is cancelled" if ends else "is told to end"
    assert f"Job {handle.job.id} {expected}" in done.output


def test_stages_by_their_names():
    assert stages_of("run") == STAGES
    assert stages_of("evaluate") == ("evaluate",)
    with pytest.raises(UserError, match="prepare, train, evaluate, export"):
        stages_of("serve")


def test_every_launcher_that_an_experiment_may_name_is_there():
    assert set(LAUNCHERS) == set(typing.get_args(SubmitSection.model_fields["to"].annotation))


def test_lines_are_read_as_they_come(tmp_path):
    log, other = tmp_path / "train-0.log", tmp_path / "job.log"
    log.write_bytes(b"one\ntw")
    answers = iter([False, False, True])

    def ended():
        answer = next(answers)
        with log.open("ab") as file:
            file.write(b"o\nthree" if answer else b"")
        if answer:
            other.write_bytes(b"\xff\n")
        return answer

    assert [*read_logs(tmp_path, ended)] == [
        "train-0: one",
        "job: \N{REPLACEMENT CHARACTER}",
        "train-0: two",
        "train-0: three",
    ]


def test_a_backend_is_asked_more_seldom_than_files_are_read(tmp_path, monkeypatch):
    now, reads, asked = [0.0], [], []
    monkeypatch.setattr(log_files.time, "monotonic", lambda: now[0])

    def sleep(seconds):
        now[0] += seconds
        reads.append(seconds)

    def ended():
        asked.append(now[0])
        return now[0] >= 3.0

    monkeypatch.setattr(log_files.time, "sleep", sleep)
    assert [*read_logs(tmp_path, ended, 2.0)] == []
    assert len(asked) == 3 and len(reads) > 10


def test_verbs_tell_mistakes(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("name: small\ndata: {train: [{format: tsv, path: a.tsv}]}\n")
    where = ("--set", f"workspace={tmp_path}/run")
    told = seqloom("submit", str(path), "--to", "moon", status=2).stderr.decode()
    assert "'submit.to' is 'moon'" in told and "slurm" in told
    told = seqloom("submit", str(path), "--workers", "0", status=2).stderr.decode()
    assert "--set submit.workers=0" in told
    told = seqloom("run", str(path), "--stage", "serve", status=2).stderr.decode()
    assert "--stage serve: expected one of prepare, train, evaluate, export" in told
    assert "seqloom submit" in seqloom("logs", str(path), *where, status=2).stderr.decode()
    assert "No job" in seqloom("jobs", str(path), *where).stdout.decode()
    plan = seqloom("submit", str(path), *where, "--workers", "2", "--dry-run").stdout.decode()
    assert plan.count("--stage train") == 2 and not (tmp_path / "run").exists()
