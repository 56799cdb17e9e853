"""Jobs as a workspace keeps them, and the verbs' mistakes."""

import typing

import pytest
from command import seqloom

from models.errors import UserError
from pipeline.experiment import SubmitSection
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.submit.contract import STAGES, Launcher, Status
from pipeline.submit.jobs import find_job, list_jobs, make_job, options_of, stages_of, submit_job
from pipeline.submit.log_files import read_logs
from pipeline.submit.members import LAUNCHERS


class Noting(Launcher):
    """Starts nothing."""

    refuses = False

    def plan(self, job):
        return ""

    def submit(self, job):
        if self.refuses:
            raise UserError("no room")
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


def test_a_refused_job_leaves_nothing(experiment):
    launcher = Noting(experiment.submit)
    launcher.refuses = True
    with pytest.raises(UserError, match="no room"):
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


def test_verbs_tell_mistakes(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("name: small\ndata: {train: [{format: tsv, path: a.tsv}]}\n")
    where = ("--set", f"workspace={tmp_path}/run")
    told = seqloom("submit", str(path), "--to", "moon", status=2).stderr.decode()
    assert "'submit.to' is 'moon'" in told and "slurm" in told
    told = seqloom("submit", str(path), "--workers", "0", status=2).stderr.decode()
    assert "--set submit.workers=0" in told
    assert "seqloom submit" in seqloom("logs", str(path), *where, status=2).stderr.decode()
    assert "No job" in seqloom("jobs", str(path), *where).stdout.decode()
    plan = seqloom("submit", str(path), *where, "--workers", "2", "--dry-run").stdout.decode()
    assert plan.count("pipeline.cli train") == 2 and not (tmp_path / "run").exists()
