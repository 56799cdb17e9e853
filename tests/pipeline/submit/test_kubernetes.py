"""Jobs on Kubernetes: manifests against its schemas, the calls against a server that keeps them."""

import http.server
import json
import pathlib
import subprocess
import sys
import threading

import pytest
import yaml
from command import ROOT, environment

from models.errors import UserError
from pipeline.experiment import SubmitSection
from pipeline.submit.contract import STAGES, Job, JobHandle
from pipeline.submit.kubernetes import KubernetesLauncher
from pipeline.submit.kubernetes_task import tf_config

kubernetes = pytest.importorskip("kubernetes", reason="the extra kubernetes is not installed")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="the extra dev has it")
jobset_models = pytest.importorskip("kubeflow_trainer_api.models", reason="the extra dev has it")

VERSION = "1.33"  # of Kubernetes' schemas
NEEDED = {"image": "registry/seqloom:1", "volume_claim": "runs"}


def launcher(**options):
    return KubernetesLauncher(SubmitSection(to="kubernetes", kubernetes={**NEEDED, **options}))


def job(stages=STAGES, workers=3, workspace="/seqloom/run", **changes):
    name = "20261130-085743-62eb"
    root = pathlib.Path(workspace)
    values = dict(
        id=name,
        folder=root / "jobs" / name,
        directory=pathlib.Path("/home/someone"),
        workspace=root,
        stages=stages,
        workers=workers,
        gpus_per_worker=2,
        max_restarts=4,
        grace_seconds=45.0,
        environment={"SEQLOOM_DEBUG": "1"},
    )
    return Job(**{**values, **changes})


def documents(plan):
    return list(yaml.safe_load_all(plan))


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def test_a_jobset_is_one_by_its_schema():
    """Every field survives the way through the model, which drops those it does not know."""
    (document,) = documents(launcher(queue="team", namespace="ml").plan(job()))
    model = jobset_models.JobsetV1alpha2JobSet.from_dict(document)
    assert without_nulls(model.to_dict()) == document
    assert document["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert document["metadata"]["namespace"] == "ml"


def test_the_jobs_of_a_jobset_are_those_of_kubernetes():
    (document,) = documents(launcher(node_selector={"gpu": "h200"}).plan(job()))
    for replicated in document["spec"]["replicatedJobs"]:
        kubernetes_validate.validate(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": replicated["name"]},
                "spec": replicated["template"]["spec"],
            },
            VERSION,
            strict=True,
        )


def test_stages_follow_one_another_and_a_gang_starts_again_together():
    (document,) = documents(launcher().plan(job()))
    spec = document["spec"]
    by_name = {each["name"]: each for each in spec["replicatedJobs"]}
    assert list(by_name) == list(STAGES)
    assert "dependsOn" not in by_name["prepare"]
    for before, stage in zip(STAGES, STAGES[1:], strict=False):
        assert by_name[stage]["dependsOn"] == [{"name": before, "status": "Complete"}]
    assert spec["failurePolicy"]["maxRestarts"] == 4
    train = by_name["train"]["template"]["spec"]
    assert (train["completions"], train["parallelism"], train["backoffLimit"]) == (3, 3, 0)
    assert by_name["evaluate"]["template"]["spec"]["completions"] == 1
    (rule,) = train["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == [2]
    pod = train["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 45
    (container,) = pod["containers"]
    made = job()
    assert container["image"] == NEEDED["image"]
    assert container["args"] == [str(made.folder), "train", *made.arguments("train")]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    (evaluating,) = by_name["evaluate"]["template"]["spec"]["template"]["spec"]["containers"]
    assert "nvidia.com/gpu" not in evaluating["resources"]["limits"]
    assert {"name": "SEQLOOM_DEBUG", "value": "1"} in container["env"]
    (volume,) = pod["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == "runs"
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/seqloom"}]


@pytest.mark.parametrize(
    ("directory", "expected"), [("/seqloom/x", "/seqloom/x"), ("/home/me", None)]
)
def test_containers_start_where_the_command_was_given_if_they_can(directory, expected):
    (document,) = documents(launcher().plan(job(directory=pathlib.Path(directory))))
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["containers"][0].get("workingDir") == expected


def test_a_plain_job_is_one_by_its_schema():
    options = {"kind": "job", "queue": "team", "node_selector": {"gpu": "h200"}}
    service, run = documents(launcher(**options).plan(job(("train",))))
    for document in (service, run):
        kubernetes_validate.validate(document, VERSION, strict=True)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == run["spec"]["template"]["metadata"]["labels"]
    assert run["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert run["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    spec = run["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert spec["backoffLimit"] == 12
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == [2]
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["nodeSelector"]) == ("Never", {"gpu": "h200"})
    (container,) = pod["containers"]
    assert container["image"] == NEEDED["image"]
    assert container["resources"]["limits"] == {"memory": "4Gi", "nvidia.com/gpu": "2"}
    (volume,) = pod["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == "runs"
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/seqloom"}]


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("jobset", "seqloom-20261130-085743-62eb-train-0-0.seqloom-20261130-085743-62eb:23000"),
        ("job", "seqloom-20261130-085743-62eb-0.seqloom-20261130-085743-62eb:23000"),
    ],
)
def test_workers_find_one_another_by_name(kind, first):
    document = documents(launcher(kind=kind).plan(job(("train",))))[-1]
    spec = document["spec"]
    if kind == "jobset":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    config = json.loads(tf_config({**variables, "JOB_COMPLETION_INDEX": "1"}))
    assert config["cluster"]["worker"][0] == first
    assert len(config["cluster"]["worker"]) == 3
    assert config["task"] == {"type": "worker", "index": 1}
    assert all(len(host.split(".")[0]) <= 63 for host in config["cluster"]["worker"])


def test_one_worker_needs_no_description():
    assert tf_config({"SEQLOOM_WORKERS": "1", "JOB_COMPLETION_INDEX": "0"}) is None


@pytest.mark.parametrize(
    ("options", "changes", "complaint"),
    [
        ({"image": None}, {}, "submit.kubernetes.image: not given"),
        ({"volume_claim": None}, {}, "submit.kubernetes.volume_claim: not given"),
        ({}, {"workspace": "/home/me/run"}, "/home/me/run does not lie in"),
        ({"kind": "job"}, {}, "a job runs one stage"),
    ],
)
def test_what_is_missing_is_told(options, changes, complaint):
    with pytest.raises(UserError, match=complaint):
        launcher(**options).plan(job(**changes))


class FakeCluster(http.server.BaseHTTPRequestHandler):
    """Keeps what it is given by the paths of Kubernetes' API."""

    objects: dict

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        queue = value["metadata"]["labels"].get("kueue.x-k8s.io/queue-name")
        if queue == "full" and value["kind"] != "Service":
            self.answer(403, {"message": "the queue is full"})
            return
        self.objects[f"{self.path}/{value['metadata']['name']}"] = value
        self.answer(201, value)

    def do_GET(self):
        found = self.objects.get(self.path)
        self.answer(200 if found else 404, found or {"message": "not found"})

    def do_DELETE(self):
        found = self.objects.pop(self.path.partition("?")[0], None)
        self.answer(200 if found else 404, {"message": "deleted" if found else "not found"})

    def log_message(self, *_):
        pass


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Objects of a fake cluster that kubectl's configuration points to."""
    handler = type("Handler", (FakeCluster,), {"objects": {}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
            {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "other"}},
            {"name": "off", "context": {"cluster": "gone", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}},
            {"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}},
        ],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    yield handler.objects
    server.shutdown()
    server.server_close()


@pytest.fixture
def stored(tmp_path):
    """A job whose folder is written, in a volume that is mounted here."""
    made = job(workspace=str(tmp_path / "run"))
    made.logs.mkdir(parents=True)
    return made


def test_a_jobset_is_created_watched_and_deleted(cluster, stored, tmp_path):
    backend = launcher(mount_path=str(tmp_path))
    native = backend.submit(stored)
    (path,) = cluster
    assert path.startswith("/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets/seqloom-")
    handle = JobHandle(stored, "kubernetes", "now", native)
    assert backend.status(handle).state == "waiting"
    cluster[path]["status"] = {
        "restarts": 2,
        "replicatedJobsStatus": [
            {"name": "prepare", "active": 0, "succeeded": 1},
            {"name": "train", "active": 1},
        ],
    }
    assert backend.status(handle)[:3] == ("running", "train", 2)
    failed = {"type": "Failed", "status": "True", "message": "too many restarts"}
    cluster[path]["status"]["conditions"] = [failed]
    cluster[path]["status"]["replicatedJobsStatus"][1] = {"name": "train", "failed": 1}
    assert backend.status(handle) == ("failed", "train", 2, "too many restarts")
    cluster[path]["status"]["conditions"] = [{"type": "Completed", "status": "True"}]
    assert backend.status(handle).state == "done"
    (stored.logs / "train-0.log").write_text("step 1\n")
    assert list(backend.logs(handle, follow=True)) == ["train-0: step 1"]
    cluster[path]["status"] = {
        "conditions": [{"type": "Suspended", "status": "True", "message": "no quota"}]
    }
    assert backend.status(handle) == ("waiting", None, 0, "no quota")
    backend.cancel(handle)
    assert cluster == {} and backend.status(handle).state == "cancelled"
    (stored.folder / "cancelled").unlink()
    assert backend.status(handle).state == "lost"


def test_a_plain_job_is_created_watched_and_deleted(cluster, stored, tmp_path):
    single = job(("train",), workspace=str(stored.workspace))
    backend = launcher(kind="job", mount_path=str(tmp_path))
    handle = JobHandle(single, "kubernetes", "now", backend.submit(single))
    service, run = cluster
    assert service.startswith("/api/v1/namespaces/ml/services/")
    assert run.startswith("/apis/batch/v1/namespaces/ml/jobs/")
    cluster[run]["status"] = {"active": 3}
    assert backend.status(handle)[:2] == ("running", "train")
    condition = {"type": "Complete", "status": "True"}
    cluster[run]["status"] = {"succeeded": 3, "conditions": [condition]}
    assert backend.status(handle).state == "done"
    backend.cancel(handle)
    assert cluster == {}


@pytest.mark.parametrize("kind", ["jobset", "job"])
def test_a_refusal_is_told_and_leaves_nothing(cluster, stored, tmp_path, kind):
    made = stored if kind == "jobset" else job(("train",), workspace=str(stored.workspace))
    with pytest.raises(UserError, match="the cluster refuses: 403 .*: the queue is full"):
        launcher(mount_path=str(tmp_path), queue="full", kind=kind).submit(made)
    assert cluster == {}


def test_a_job_stays_that_of_the_context_it_was_submitted_in(cluster, stored, tmp_path):
    """The namespace is that of the context by its name; later another may be the current one."""
    native = launcher(mount_path=str(tmp_path), context="there").submit(stored)
    assert (native["context"], native["namespace"]) == ("there", "other")
    assert "/namespaces/other/" in next(iter(cluster))
    cluster.clear()
    backend = launcher(mount_path=str(tmp_path))
    handle = JobHandle(stored, "kubernetes", "now", backend.submit(stored))
    path = tmp_path / "kubeconfig"
    path.write_text(path.read_text().replace("current-context: here", "current-context: 'off'"))
    assert backend.status(handle).state == "waiting"
    with pytest.raises(UserError, match="the cluster does not answer"):
        launcher(mount_path=str(tmp_path)).submit(stored)
    backend.cancel(handle)
    assert cluster == {}
    with pytest.raises(UserError, match="context: no cluster is configured.*elsewhere"):
        launcher(mount_path=str(tmp_path), context="elsewhere").submit(stored)


def test_a_machine_without_a_cluster_is_told(stored, tmp_path, monkeypatch):
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", "/nowhere")
    with pytest.raises(UserError, match="no cluster is configured"):
        launcher(mount_path=str(tmp_path)).submit(stored)


def run_task(folder, *arguments, index=0, workers=1):
    return subprocess.run(
        [sys.executable, "-m", "pipeline.submit.kubernetes_task", str(folder), *arguments],
        capture_output=True,
        cwd=ROOT,
        env=environment(JOB_COMPLETION_INDEX=str(index), SEQLOOM_WORKERS=str(workers)),
        timeout=300,
    )


def test_a_container_keeps_what_it_prints_and_is_not_run_again_once_done(stored):
    """Stages that are done end at once when all of a JobSet is started again."""
    command = ("show", "show", str(ROOT / "configs/demo.yaml"))
    assert b"name: demo" in run_task(stored.folder, *command, index=1).stdout
    first = run_task(stored.folder, *command)
    assert first.returncode == 0
    assert (stored.logs / "show-0.log").read_bytes() == first.stdout
    assert b"name: demo" in first.stdout
    for index in (0, 1):  # Where the first is done, nobody waits for it.
        assert run_task(stored.folder, *command, index=index).stdout == b"show is done already\n"


def test_a_container_ends_as_its_command_does(stored):
    done = run_task(stored.folder, "show", "show", "nowhere.yaml")
    assert done.returncode == 2
    assert "no such experiment file" in (stored.logs / "show-0.log").read_text()
    assert not list(stored.folder.glob("*.done"))
