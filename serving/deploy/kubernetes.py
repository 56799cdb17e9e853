"""Kubernetes: a Deployment with what keeps it reachable, scaled and watched."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from serving.deploy import contract, upload
from serving.deploy.contract import GRPC_PORT, IMAGE, REST_PORT, Deployment
from serving.deploy.kubernetes_pod import labels, pod_template
from serving.deploy.kubernetes_yaml import kubernetes_models, to_yaml
from serving.deploy.server_files import server_files
from serving.server.url_folder import URL_POLL_SECONDS

_MIB = 1 << 20
_TARGET_CPU_PERCENT = 70
# Loads rise and fall within minutes, and a new server has to load its model first.
_PATIENCE_SECONDS = 300


class Kubernetes(contract.Target):
    """Servers that read versions from a volume, which `upload.sh` copies the export to, or a URL.

    Raises:
        UserError: If Kubernetes' client is not installed.
    """

    def __init__(self) -> None:
        self._client = kubernetes_models()

    def files(self, deployment: Deployment) -> Mapping[str, str]:
        """The manifests; those in folders of their own are not part of `kubectl apply -f .`."""
        client = self._client
        config = server_files(deployment)
        manifests = {
            "config.yaml": _config_map(client, deployment, config),
            "deployment.yaml": _deployment(client, deployment, config),
            "service.yaml": _service(client, deployment),
            "autoscaler.yaml": _autoscaler(client, deployment),
            "disruption-budget.yaml": _disruption_budget(client, deployment),
            **upload.manifests(client, deployment),
            "monitoring/service-monitor.yaml": _service_monitor(deployment),
        }
        return {
            **{path: to_yaml([manifest]) for path, manifest in manifests.items()},
            **upload.scripts(deployment),
            "README.md": _readme(deployment),
        }


def _config_map(client: ModuleType, deployment: Deployment, config: dict[str, str]) -> Any:
    return client.V1ConfigMap(
        api_version="v1",
        kind="ConfigMap",
        metadata=client.V1ObjectMeta(name=deployment.label, labels=labels(deployment)),
        data=config,
    )


def _deployment(client: ModuleType, deployment: Deployment, config: dict[str, str]) -> Any:
    return client.V1Deployment(
        api_version="apps/v1",
        kind="Deployment",
        metadata=client.V1ObjectMeta(name=deployment.label, labels=labels(deployment)),
        # Without a number of replicas, which the autoscaler's would be set back to at every apply.
        spec=client.V1DeploymentSpec(
            selector=client.V1LabelSelector(match_labels=labels(deployment)),
            strategy=client.V1DeploymentStrategy(
                type="RollingUpdate",
                rolling_update=client.V1RollingUpdateDeployment(max_surge=1, max_unavailable=0),
            ),
            template=pod_template(client, deployment, config),
        ),
    )


def _service(client: ModuleType, deployment: Deployment) -> Any:
    ports = {"grpc": GRPC_PORT, "rest": REST_PORT}
    protocols = {"grpc": "kubernetes.io/h2c", "rest": "http"}
    return client.V1Service(
        api_version="v1",
        kind="Service",
        metadata=client.V1ObjectMeta(name=deployment.label, labels=labels(deployment)),
        spec=client.V1ServiceSpec(
            selector=labels(deployment),
            ports=[
                client.V1ServicePort(
                    name=name, port=port, target_port=name, app_protocol=protocols[name]
                )
                for name, port in ports.items()
            ],
        ),
    )


def _autoscaler(client: ModuleType, deployment: Deployment) -> Any:
    return client.V2HorizontalPodAutoscaler(
        api_version="autoscaling/v2",
        kind="HorizontalPodAutoscaler",
        metadata=client.V1ObjectMeta(name=deployment.label, labels=labels(deployment)),
        spec=client.V2HorizontalPodAutoscalerSpec(
            scale_target_ref=client.V2CrossVersionObjectReference(
                api_version="apps/v1", kind="Deployment", name=deployment.label
            ),
            min_replicas=deployment.replicas,
            max_replicas=deployment.max_replicas,
            metrics=[
                client.V2MetricSpec(
                    type="Resource",
                    resource=client.V2ResourceMetricSource(
                        name="cpu",
                        target=client.V2MetricTarget(
                            type="Utilization", average_utilization=_TARGET_CPU_PERCENT
                        ),
                    ),
                )
            ],
            behavior=client.V2HorizontalPodAutoscalerBehavior(
                scale_down=client.V2HPAScalingRules(stabilization_window_seconds=_PATIENCE_SECONDS)
            ),
        ),
    )


def _disruption_budget(client: ModuleType, deployment: Deployment) -> Any:
    return client.V1PodDisruptionBudget(
        api_version="policy/v1",
        kind="PodDisruptionBudget",
        metadata=client.V1ObjectMeta(name=deployment.label, labels=labels(deployment)),
        spec=client.V1PodDisruptionBudgetSpec(
            max_unavailable=1, selector=client.V1LabelSelector(match_labels=labels(deployment))
        ),
    )


def _service_monitor(deployment: Deployment) -> dict[str, Any]:
    """Of the Prometheus operator, which the client has no models of."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": deployment.label, "labels": labels(deployment)},
        "spec": {
            "selector": {"matchLabels": labels(deployment)},
            "endpoints": [
                {
                    "port": "rest",
                    "path": "/monitoring/prometheus/metrics",
                    "interval": "15s",
                }
            ],
        },
    }


def _versions(deployment: Deployment) -> str:
    """How versions come to the servers."""
    if deployment.url is None:
        return """Later versions are copied by `sh upload/upload.sh FOLDER`, and
servers take them up by themselves, one look a second. The volume is claimed as `ReadWriteMany`,
since the servers of all machines read it. Where the cluster's default has no such storage, name a
class that has it in `deploy.storage_class` of the experiment."""
    account = deployment.service_account or "default"
    return f"""Servers read the versions themselves, at
`{deployment.url}`, and look there every {URL_POLL_SECONDS} s for what `seqloom export`
has written. They do so as the service account `{account}` of the namespace
(`deploy.service_account`): let it read the bucket, on GKE by Workload Identity Federation."""


def _readme(deployment: Deployment) -> str:
    name, measured = deployment.model_name, deployment.measured
    mib = {"peak": measured.peak_bytes, "own": measured.model_bytes}
    peak, own = (f"{size / _MIB:,.0f}" for size in mib.values())
    copying = f"""
    sh upload/upload.sh          # copies version {deployment.version} to the volume"""
    return f"""# {name} on Kubernetes
{"" if deployment.url else copying}
    kubectl apply -f .
    kubectl rollout status deployment/{deployment.label}
    kubectl port-forward service/{deployment.label} {REST_PORT} {GRPC_PORT}

runs `{IMAGE}`, {deployment.replicas} servers at least and {deployment.max_replicas} at most, in
the namespace of `kubectl`'s context. Where the Prometheus operator runs, `kubectl apply -f
monitoring` lets it read the servers' metrics.

{_versions(deployment)}

Memory: version {deployment.version} took {peak} MiB with full batches of
{deployment.max_batch_size}, {own} of them its own. A server asks for a quarter more, and may use as
much as two versions take and a quarter more, since a new version is loaded before the old one goes.
There is no limit of processors, which would only stop threads in the midst of a batch.

A server that is to end gets no new requests and has {contract.DRAIN_SECONDS} s for those under way,
then SIGTERM. Process 1 of its pod is Kubernetes' own pause process (`shareProcessNamespace`), as
tini would be: as process 1 the server would ignore SIGTERM.

A `Service` spreads connections, not requests: let clients of gRPC make several channels, or put a
proxy that knows HTTP/2 before it.
"""
