"""Jobs of workspaces at URLs: kept there for Kubernetes, and on a disk for the others."""

import json
import pathlib
import sys
import time

import pytest
import yaml

from models.errors import UserError
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.places import UrlPath, place
from pipeline.submit import kubernetes_task
from pipeline.submit.jobs import find_job, list_jobs, make_job, options_of, submit_job
from pipeline.submit.kubernetes import KubernetesLauncher
from pipeline.submit.local import LocalLauncher
from pipeline.submit.log_files import read_logs
from pipeline.submit.slurm import SlurmLauncher
from pipeline.submit.stored_log import StoredLog
from tests.pipeline.submit.stand_in import finish, start
from tests.pipeline.submit.stand_in import make_job as make_stand_in
from tests.pipeline.submit.test_jobs import Noting

SMALL = """\
name: small
workspace: {root}
data: {{train: [{{format: tsv, path: a.tsv}}]}}
submit:
  to: kubernetes
  workers: 2
  kubernetes: {{image: "registry/seqloom:1", service_account: trainer}}
"""


@pytest.fixture
def experiment(store, tmp_path, monkeypatch):
    """An experiment whose workspace is at a URL, and a folder to be in."""
    (tmp_path / "small.yaml").write_text(SMALL.format(root=f"{store}/small"))
    monkeypatch.chdir(tmp_path)
    return load_experiment(tmp_path / "small.yaml")


def keep(experiment, at_url):
    job = make_job(experiment, ("train",), at_url)
    return submit_job(experiment, job, "kubernetes", Noting(experiment.submit))


def test_a_job_is_kept_beside_the_run_and_found_again(experiment, store):
    workspace = workspace_of(experiment)
    assert list_jobs(workspace) == []
    handle = keep(experiment, KubernetesLauncher.jobs_at_urls)
    assert handle.job.folder == place(store) / "small" / "jobs" / handle.job.id
    assert (handle.job.folder / "job.json").is_file()
    assert list_jobs(workspace) == [handle] and find_job(workspace, handle.job.id) == handle
    assert load_experiment(handle.job.experiment).workspace == f"{store}/small"
    assert options_of(handle.job) == experiment.submit
    other = workspace_of(experiment.model_copy(update={"workspace": f"{store}/other"}))
    assert list_jobs(other) == []


def test_a_job_that_is_refused_leaves_nothing(experiment, store):
    job = make_job(experiment, at_url=True)
    launcher = Noting(experiment.submit)
    launcher.refuses = UserError
    with pytest.raises(UserError, match="no room"):
        submit_job(experiment, job, "kubernetes", launcher)
    assert not place(store).exists()


@pytest.mark.parametrize("launcher", [LocalLauncher, SlurmLauncher])
def test_others_keep_jobs_on_a_disk_and_the_run_at_its_url(launcher, experiment, store, tmp_path):
    handle = keep(experiment, launcher.jobs_at_urls)
    assert handle.job.folder == tmp_path / "runs" / "small" / "jobs" / handle.job.id
    assert handle.job.workspace == UrlPath(f"{store}/small")
    assert load_experiment(handle.job.experiment).workspace == f"{store}/small"
    later = keep(experiment, at_url=True)
    assert [each.job.id for each in list_jobs(workspace_of(experiment))] == sorted(
        [handle.job.id, later.job.id]
    )
    # Other runs of that name have their jobs in the same folder.
    for root in (f"{store}/other/small", str(tmp_path / "runs" / "small")):
        workspace = workspace_of(experiment.model_copy(update={"workspace": root}))
        assert list_jobs(workspace) == []


def test_a_job_runs_here_while_its_workspace_is_elsewhere(tmp_path):
    job = make_stand_in(tmp_path, "print(stage)", workspace=UrlPath("gs://bucket/run"))
    handle, launcher = start(job)
    assert finish(handle, launcher).state == "done"
    assert "train-0: train" in launcher.logs(handle, follow=True)


def documents(experiment, **options):
    changed = experiment.submit.kubernetes.model_copy(update=options)
    submit = experiment.submit.model_copy(update={"kubernetes": changed})
    stages = ("train",) if options.get("kind") == "job" else ("prepare", "train")
    job = make_job(experiment, stages, at_url=True)
    return job, list(yaml.safe_load_all(KubernetesLauncher(submit).plan(job)))


@pytest.mark.parametrize("kind", ["jobset", "job"])
def test_pods_need_no_volume_for_it(experiment, kind):
    pytest.importorskip("kubernetes", reason="the extra kubernetes is not installed")
    validator = pytest.importorskip("kubernetes_validate", reason="the extra dev has it")
    job, made = documents(experiment, kind=kind)
    spec = made[-1]["spec"]
    if kind == "jobset":
        spec = spec["replicatedJobs"][-1]["template"]["spec"]
    run = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}
    validator.validate(run, "1.33", strict=True)
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert "volumes" not in pod and "volumeMounts" not in container
    assert pod["serviceAccountName"] == "trainer"
    assert container["args"] == [str(job.folder), "train", *job.arguments("train")]
    assert container["args"][-1 if kind == "job" else 3] == str(job.experiment)
    # Corpora may lie on one all the same.
    spec = documents(experiment, kind=kind, volume_claim="corpora")[1][-1]["spec"]
    if kind == "jobset":
        spec = spec["replicatedJobs"][-1]["template"]["spec"]
    pod = spec["template"]["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "corpora"
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/seqloom"


def test_a_container_keeps_what_it_prints_and_is_not_run_again_once_done(
    store, monkeypatch, capfdbinary
):
    folder = place(store) / "jobs" / "a"
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    monkeypatch.setenv("SEQLOOM_WORKERS", "1")
    monkeypatch.setattr("sys.argv", ["task", str(folder), "train", "0"])
    program = "import sys; print('step 1'); sys.exit(int(sys.argv[1]))"
    monkeypatch.setattr(
        kubernetes_task, "module_command", lambda _: [sys.executable, "-c", program]
    )

    def run():
        with pytest.raises(SystemExit) as ended:
            kubernetes_task.main()
        return ended.value.code

    monkeypatch.setattr("sys.argv", ["task", str(folder), "train", "75"])
    assert run() == 75 and not (folder / "train.done").exists()
    monkeypatch.setattr("sys.argv", ["task", str(folder), "train", "0"])
    assert run() == 0 and (folder / "train.done").exists()
    # What was printed before the restart stays.
    assert list(read_logs(folder / "logs")) == ["train-0: step 1"] * 2
    kubernetes_task.main()
    assert capfdbinary.readouterr().out == b"step 1\nstep 1\ntrain is done already\n"


def test_a_log_is_sent_while_it_grows_and_a_store_that_is_away_ends_nothing(
    store, monkeypatch, capsys
):
    path = place(store) / "train-0.log"
    with StoredLog(path, seconds=0.01) as log:
        log.write(b"one\n")
        deadline = time.monotonic() + 30
        while not path.is_file():
            assert time.monotonic() < deadline, "it is not sent before its end"
            time.sleep(0.01)
        assert path.read_bytes() == b"one\n"
        lines = read_logs(path.parent, ended=lambda: True)
        assert next(lines) == "train-0: one"
        wrote = []

        def refuse(self, content):
            wrote.append(content)
            raise OSError(None, "the store is away")

        with monkeypatch.context() as away:
            away.setattr(UrlPath, "write_bytes", refuse)
            log.write(b"two\n")
            while len(wrote) < 2:
                assert time.monotonic() < deadline, "it is not tried again"
                time.sleep(0.01)
    assert path.read_bytes() == b"one\ntwo\n" and not capsys.readouterr().err
    monkeypatch.setattr(UrlPath, "write_bytes", refuse)
    with StoredLog(path) as log:
        log.write(b"three\n")
    assert f"{path}: cannot be written" in capsys.readouterr().err


def test_a_handle_keeps_places_as_their_text(experiment, store):
    handle = keep(experiment, at_url=True)
    kept = json.loads((handle.job.folder / "job.json").read_text())
    assert kept["job"]["workspace"] == f"{store}/small"
    assert kept["job"]["directory"] == str(pathlib.Path.cwd())
