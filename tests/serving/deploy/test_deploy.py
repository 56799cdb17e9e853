"""Folders that run TensorFlow Serving: what its files say, and that a server can be run by them."""

import dataclasses
import subprocess
import sys
import urllib.request

import pytest
import yaml

from models.errors import UserError
from serving.deploy.contract import Deployment, Measured
from serving.deploy.members import TARGETS, make_target
from serving.server.batching_rules import BatchingRules, read_rules
from serving.server.flags import parse
from serving.server.main import Server
from serving.server.options import ServerOptions

MIB = 1 << 20
# The oldest and the newest Kubernetes that the schemas at hand describe.
RELEASES = ("1.25.0", "1.37.0")


@pytest.fixture
def deployment(base_path):
    measured = Measured(400 * MIB, 1000 * MIB, 7.0)
    return Deployment("translation", base_path, 1, measured, max_batch_size=24)


def written(deployment, target, folder):
    for path, text in make_target(target).files(deployment).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def compose(deployment, tmp_path):
    return yaml.safe_load((written(deployment, "docker", tmp_path) / "compose.yaml").read_text())


@pytest.fixture
def manifests(deployment):
    pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
    files = make_target("kubernetes").files(deployment)
    return {path: yaml.safe_load(text) for path, text in files.items() if path.endswith(".yaml")}


@pytest.fixture
def at_url(deployment):
    return dataclasses.replace(
        deployment, url="gs://bucket/run/export/translation", service_account="reader"
    )


def test_an_unknown_target_is_told_with_those_there_are():
    with pytest.raises(UserError, match="--target swarm: expected one of docker, kubernetes"):
        make_target("swarm")


def test_a_missing_package_is_told_with_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(UserError, match=r"pip install 'seqloom\[kubernetes\]'"):
        make_target("kubernetes")


@pytest.mark.parametrize("target", TARGETS)
def test_a_folder_says_how_to_start(deployment, target):
    if target == "kubernetes":
        pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
    assert "tensorflow/serving:2.20.0" in make_target(target).files(deployment)["README.md"]


def test_batches_of_the_parameters_file_are_those_asked_for(deployment, tmp_path):
    folder = written(deployment, "docker", tmp_path)
    rules = read_rules(folder / "config" / "batching.config")
    expected = BatchingRules(24, 20000, 100, 2, (), rules.thread_pool_name)
    assert rules == expected


def here(words, folder, deployment):
    """The container's flags, its paths turned into those of this machine."""
    config = folder / "config" / "models.config"
    inside = f"/models/{deployment.model_name}"
    assert inside in config.read_text()
    config.write_text(config.read_text().replace(inside, str(deployment.base)))
    words = [word.replace("=/config/", f"={folder}/config/") for word in words]
    # The command has the ports as options of its own.
    return [word for word in words if not word.startswith(("--port=", "--rest_api_port="))]


def test_a_server_runs_by_the_flags_and_files_and_is_found_healthy(compose, deployment, tmp_path):
    service = compose["services"]["serving"]
    flags = parse(here(service["command"], tmp_path, deployment))
    with Server(ServerOptions(**flags, port=0, rest_api_port=0)) as server:
        rest = server.addresses.rest
        body = b'{"inputs": ["hello"]}'
        request = urllib.request.Request(f"http://{rest}/v1/models/translation:predict", body)
        assert b"HELLO" in urllib.request.urlopen(request, timeout=30).read()
        page = urllib.request.urlopen(f"http://{rest}/monitoring/prometheus/metrics", timeout=30)
        assert b"request_count" in page.read()
        healthy = [
            word.replace("8501", rest.split(":")[1]) for word in service["healthcheck"]["test"]
        ]
        assert subprocess.run(healthy[1:], timeout=30, check=False).returncode == 0
    gone = subprocess.run(healthy[1:], timeout=30, check=False, capture_output=True)
    assert gone.returncode != 0


def test_the_container_is_small_in_rights_and_reads_the_exports_own_folder(compose, deployment):
    service = compose["services"]["serving"]
    assert service["image"] == "tensorflow/serving:2.20.0"
    assert service["init"] is True  # Docker's tini
    assert service["user"] == "10001:10001" and service["read_only"] is True
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    mounts = {mount["target"]: mount for mount in service["volumes"]}
    assert mounts["/models/translation"]["source"] == str(deployment.base)
    assert all(mount["read_only"] for mount in mounts.values())
    # 1000 MiB, and 600 of a second version, and a quarter more.
    assert service["deploy"]["resources"]["limits"]["memory"] == "2000M"
    assert service["deploy"]["resources"]["reservations"]["memory"] == "1250M"


@pytest.mark.parametrize("release", RELEASES)
def test_manifests_keep_to_the_schemas(manifests, release):
    validator = pytest.importorskip("kubernetes_validate", reason="needs the extra dev")
    own = {path: one for path, one in manifests.items() if one["kind"] != "ServiceMonitor"}
    assert sorted(one["kind"] for one in own.values()) == [
        "ConfigMap",
        "Deployment",
        "HorizontalPodAutoscaler",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "Service",
    ]
    for manifest in own.values():
        validator.validate(manifest, release, strict=True)
    wrong = {**own["service.yaml"], "spec": {"ports": [{"port": "grpc"}]}}
    with pytest.raises(validator.ValidationError):
        validator.validate(wrong, release, strict=True)


def test_manifests_mean_each_other(manifests):
    server = manifests["deployment.yaml"]
    template = server["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    labels = template["metadata"]["labels"]
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert server["spec"]["selector"]["matchLabels"] == labels
    assert manifests["service.yaml"]["spec"]["selector"] == labels
    assert {one["targetPort"] for one in manifests["service.yaml"]["spec"]["ports"]} == set(named)
    budget = manifests["disruption-budget.yaml"]["spec"]
    assert budget["selector"]["matchLabels"] == labels
    scaled = manifests["autoscaler.yaml"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == server["metadata"]["name"]
    assert (scaled["minReplicas"], scaled["maxReplicas"]) == (2, 10)
    assert "replicas" not in server["spec"]  # The autoscaler's number is kept at every apply.
    monitor = manifests["monitoring/service-monitor.yaml"]["spec"]
    assert (
        monitor["selector"]["matchLabels"].items()
        <= manifests["service.yaml"]["metadata"]["labels"].items()
    )
    assert monitor["endpoints"][0]["port"] in {
        p["name"] for p in manifests["service.yaml"]["spec"]["ports"]
    }
    volumes = {one["name"]: one for one in pod["volumes"]}
    claim = manifests["volume-claim.yaml"]["metadata"]["name"]
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim
    assert volumes["config"]["configMap"]["name"] == manifests["config.yaml"]["metadata"]["name"]
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    uploaded = manifests["upload/pod.yaml"]["spec"]
    assert uploaded["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim


def test_a_pod_is_probed_ends_late_and_asks_for_what_was_measured(manifests):
    pod = manifests["deployment.yaml"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ready = "/v1/models/translation/metadata"
    assert container["startupProbe"]["httpGet"]["path"] == ready
    assert container["readinessProbe"]["httpGet"] == {"path": ready, "port": "rest"}
    assert container["livenessProbe"]["tcpSocket"] == {"port": "grpc"}
    # Whatever took 7 s here has two minutes.
    probe = container["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] == 120
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert 30 < pause < pod["terminationGracePeriodSeconds"]
    assert pod["shareProcessNamespace"] is True
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "1250Mi"},
        "limits": {"memory": "2000Mi"},
    }


def test_pods_are_replaced_when_a_file_of_the_server_changes(deployment):
    pytest.importorskip("kubernetes", reason="needs the extra kubernetes")

    def digest(one):
        text = make_target("kubernetes").files(one)["deployment.yaml"]
        return yaml.safe_load(text)["spec"]["template"]["metadata"]["annotations"]

    other = Deployment(**{**deployment.__dict__, "batch_timeout_micros": 1})
    assert digest(deployment) == digest(deployment) != digest(other)


def test_versions_at_a_url_need_no_volume_and_are_looked_for_seldom(at_url):
    pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
    validator = pytest.importorskip("kubernetes_validate", reason="needs the extra dev")
    files = make_target("kubernetes").files(at_url)
    assert not [path for path in files if "upload" in path or "volume" in path]
    assert "upload" not in files["README.md"] and "`reader`" in files["README.md"]
    manifests = {path: yaml.safe_load(files[path]) for path in files if path.endswith(".yaml")}
    for path, manifest in manifests.items():
        if not path.startswith("monitoring"):
            validator.validate(manifest, RELEASES[-1], strict=True)
    models = manifests["config.yaml"]["data"]["models.config"]
    assert f'base_path: "{at_url.url}"' in models
    pod = manifests["deployment.yaml"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "reader"
    assert {one["name"] for one in pod["volumes"]} == {"config", "scratch"}
    (container,) = pod["containers"]
    assert {one["name"] for one in container["volumeMounts"]} == {"config", "scratch"}
    flags = parse([word for word in container["args"] if "port=" not in word])
    assert flags["file_system_poll_wait_seconds"] == 30
    # A version whose files are still coming is tried for a minute.
    assert flags["max_num_load_retries"] * flags["load_retry_interval_seconds"] == 60


def test_a_container_reads_a_url_by_a_key_that_it_is_given(at_url, tmp_path):
    folder = written(at_url, "docker", tmp_path)
    service = yaml.safe_load((folder / "compose.yaml").read_text())["services"]["serving"]
    mounts = {mount["target"]: mount["source"] for mount in service["volumes"]}
    assert mounts.keys() == {"/credentials.json", "/config"}
    assert mounts["/credentials.json"].startswith("${GOOGLE_APPLICATION_CREDENTIALS:?")
    assert service["environment"] == {"GOOGLE_APPLICATION_CREDENTIALS": "/credentials.json"}
    assert at_url.url in (folder / "config" / "models.config").read_text()
    readme = (folder / "README.md").read_text()
    assert f"`{at_url.url}`" in readme and str(at_url.base) not in readme


def test_names_of_objects_are_names_of_services(base_path):
    measured = Measured(1, 2, 1.0)
    names = {"LM_tex.v2": "lm-tex-v2", "9-": "9", "a" * 60: "a" * 40}
    for name, label in names.items():
        assert Deployment(name, base_path, 1, measured).label == label


KUBECTL = """#!/bin/sh
echo "$1 $2" >> $LOG
case "$1" in
exec)
    shift 2
    test "$1" = "--" && shift
    here() { echo "$1" | sed "s#/models#$VOLUME#g"; }
    if [ "$1" = sh ]; then sh -ec "$(here "$3")"; else "$1" "$(here "$2")" "$(here "$3")"; fi ;;
cp) cp -r "$2" "$VOLUME/$(echo "$3" | sed 's#^[^:]*:/models/##')" ;;
esac
"""


@pytest.fixture
def upload(deployment, tmp_path):
    """Runs the script against a folder, by a kubectl that does there what it is told."""
    pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
    folder = written(deployment, "kubernetes", tmp_path / "deployed")
    programs, volume, log = tmp_path / "bin", tmp_path / "volume", tmp_path / "log"
    programs.mkdir()
    volume.mkdir()
    (programs / "kubectl").write_text(KUBECTL)
    (programs / "kubectl").chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "LOG": str(log), "VOLUME": str(volume)}

    def upload(*arguments):
        command = ["sh", str(folder / "upload" / "upload.sh"), *arguments]
        outcome = subprocess.run(command, env=environment, capture_output=True, text=True)
        return outcome, volume, log.read_text() if log.exists() else ""

    return upload


def test_a_version_is_uploaded_whole_and_named_last(upload):
    outcome, volume, log = upload()
    assert outcome.returncode == 0, outcome.stderr
    assert (volume / "translation" / "1" / "saved_model.pb").is_file()
    assert [path.name for path in (volume / "translation").iterdir()] == ["1"]
    verbs = [line.split()[0] for line in log.splitlines()]
    assert verbs == ["apply", "wait", "exec", "cp", "exec", "delete"]


def test_a_version_that_is_there_stays_and_the_pod_goes(upload):
    upload()
    outcome, volume, log = upload()
    assert outcome.returncode == 2 and "version 1 is there already" in outcome.stderr
    assert log.splitlines()[-1].startswith("delete pod")


def test_a_folder_that_is_no_version_is_refused(upload, tmp_path):
    outcome, _, log = upload(str(tmp_path))
    assert outcome.returncode == 2 and "no saved_model.pb" in outcome.stderr
    assert log == ""
