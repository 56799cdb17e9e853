"""The pod of one server: its container, probes, volumes and end."""

import hashlib
import json
from types import ModuleType
from typing import Any

from serving.deploy.contract import (
    CONFIG,
    DRAIN_SECONDS,
    GRPC_PORT,
    IMAGE,
    MODELS,
    PROGRAM,
    REST_PORT,
    USER,
    Deployment,
)
from serving.deploy.docker import start_seconds

_MIB = 1 << 20
_START_PERIOD = 5
# After the drain, for a process that SIGTERM ends at once.
_LAST_SECONDS = 10


def labels(deployment: Deployment) -> dict[str, str]:
    """What selects the servers of a deployment."""
    return {
        "app.kubernetes.io/name": "tensorflow-serving",
        "app.kubernetes.io/instance": deployment.label,
    }


def pod_template(client: ModuleType, deployment: Deployment, config: dict[str, str]) -> Any:
    """The template of the servers' pods.

    Args:
        client: Has the models.
        deployment: What is to run.
        config: The files that the server reads; pods are replaced when one changes.
    """
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]
    return client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(
            labels=labels(deployment), annotations={"seqloom/config": digest}
        ),
        spec=client.V1PodSpec(
            # The server would ignore SIGTERM as process 1; this makes that the pause process.
            share_process_namespace=True,
            termination_grace_period_seconds=DRAIN_SECONDS + _LAST_SECONDS,
            automount_service_account_token=False,
            service_account_name=deployment.service_account,
            security_context=pod_security(client),
            topology_spread_constraints=[_spread(client, deployment)],
            containers=[_container(client, deployment)],
            volumes=[
                *_models(client, deployment),
                client.V1Volume(
                    name="config",
                    config_map=client.V1ConfigMapVolumeSource(name=deployment.label),
                ),
                client.V1Volume(name="scratch", empty_dir=client.V1EmptyDirVolumeSource()),
            ],
        ),
    )


def _models(client: ModuleType, deployment: Deployment) -> list[Any]:
    """The volume with the versions, where they are not at a URL."""
    if deployment.url:
        return []
    source = client.V1PersistentVolumeClaimVolumeSource(claim_name=deployment.label, read_only=True)
    return [client.V1Volume(name="models", persistent_volume_claim=source)]


def pod_security(client: ModuleType) -> Any:
    """A user who is not root, and owns what the volume is given."""
    return client.V1PodSecurityContext(
        run_as_non_root=True,
        run_as_user=USER,
        run_as_group=USER,
        fs_group=USER,
        seccomp_profile=client.V1SeccompProfile(type="RuntimeDefault"),
    )


def container_security(client: ModuleType) -> Any:
    """No rights beyond reading."""
    return client.V1SecurityContext(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=client.V1Capabilities(drop=["ALL"]),
    )


def _spread(client: ModuleType, deployment: Deployment) -> Any:
    return client.V1TopologySpreadConstraint(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable="ScheduleAnyway",
        label_selector=client.V1LabelSelector(match_labels=labels(deployment)),
    )


def _container(client: ModuleType, deployment: Deployment) -> Any:
    places = {} if deployment.url else {"models": MODELS}
    return client.V1Container(
        name="serving",
        image=IMAGE,
        command=[PROGRAM],
        args=deployment.arguments,
        ports=[
            client.V1ContainerPort(name="grpc", container_port=GRPC_PORT),
            client.V1ContainerPort(name="rest", container_port=REST_PORT),
        ],
        resources=client.V1ResourceRequirements(
            requests={"cpu": str(deployment.cpus), "memory": _mebibytes(deployment.request_bytes)},
            limits={"memory": _mebibytes(deployment.limit_bytes)},
        ),
        **_probes(client, deployment),
        lifecycle=client.V1Lifecycle(
            # The server has no end but a sudden one: it gets SIGTERM when nobody asks any more.
            pre_stop=client.V1LifecycleHandler(
                _exec=client.V1ExecAction(command=["sleep", str(DRAIN_SECONDS)])
            )
        ),
        security_context=container_security(client),
        volume_mounts=[
            *(
                client.V1VolumeMount(name=name, mount_path=str(path), read_only=True)
                for name, path in {**places, "config": CONFIG}.items()
            ),
            client.V1VolumeMount(name="scratch", mount_path="/tmp"),
        ],
    )


def _probes(client: ModuleType, deployment: Deployment) -> dict[str, Any]:
    """Startup, readiness and liveness.

    The signatures are told only while a version answers, so that is what readiness asks for. A
    server with more to do than it can is alive: liveness only wants its port to be open.
    """
    path = f"/v1/models/{deployment.model_name}/metadata"
    answers = client.V1HTTPGetAction(path=path, port="rest")
    return {
        "startup_probe": client.V1Probe(
            http_get=answers,
            period_seconds=_START_PERIOD,
            timeout_seconds=5,
            failure_threshold=-(-start_seconds(deployment) // _START_PERIOD),
        ),
        "readiness_probe": client.V1Probe(
            http_get=answers, period_seconds=5, timeout_seconds=5, failure_threshold=3
        ),
        "liveness_probe": client.V1Probe(
            tcp_socket=client.V1TCPSocketAction(port="grpc"),
            period_seconds=10,
            timeout_seconds=5,
            failure_threshold=3,
        ),
    }


def _mebibytes(size: int) -> str:
    return f"{-(-size // _MIB)}Mi"
