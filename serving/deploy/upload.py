"""How versions come to the volume that the servers on Kubernetes read."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from serving.deploy.contract import IMAGE, MODELS, Deployment
from serving.deploy.kubernetes_pod import container_security, labels, pod_security

_GIB = 1 << 30
# Versions that the volume has room for.
_VERSIONS = 10


def manifests(client: ModuleType, deployment: Deployment) -> Mapping[str, Any]:
    """The volume's claim and the pod that fills it; none where versions are at a URL."""
    if deployment.url:
        return {}
    return {
        "volume-claim.yaml": volume_claim(client, deployment),
        "upload/pod.yaml": pod(client, deployment),
    }


def scripts(deployment: Deployment) -> Mapping[str, str]:
    """The script that copies a version; none where versions are at a URL."""
    return {} if deployment.url else {"upload/upload.sh": script(deployment)}


def volume_claim(client: ModuleType, deployment: Deployment) -> Any:
    """The claim of the volume, with room for ten versions of this size."""
    version = deployment.base / str(deployment.version)
    size = sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
    return client.V1PersistentVolumeClaim(
        api_version="v1",
        kind="PersistentVolumeClaim",
        metadata=client.V1ObjectMeta(name=deployment.label, labels=labels(deployment)),
        spec=client.V1PersistentVolumeClaimSpec(
            access_modes=["ReadWriteMany"],
            storage_class_name=deployment.storage_class,
            resources=client.V1VolumeResourceRequirements(
                requests={"storage": f"{-(-_VERSIONS * size // _GIB)}Gi"}
            ),
        ),
    )


def pod(client: ModuleType, deployment: Deployment) -> Any:
    """A pod that does nothing but hold the volume for writing; the image is there anyway."""
    return client.V1Pod(
        api_version="v1",
        kind="Pod",
        metadata=client.V1ObjectMeta(name=f"{deployment.label}-upload"),
        spec=client.V1PodSpec(
            automount_service_account_token=False,
            restart_policy="Never",
            termination_grace_period_seconds=0,
            security_context=pod_security(client),
            containers=[
                client.V1Container(
                    name="upload",
                    image=IMAGE,
                    command=["sleep", "3600"],
                    resources=client.V1ResourceRequirements(
                        requests={"cpu": "100m", "memory": "64Mi"}, limits={"memory": "256Mi"}
                    ),
                    security_context=container_security(client),
                    volume_mounts=[client.V1VolumeMount(name="models", mount_path=str(MODELS))],
                )
            ],
            volumes=[
                client.V1Volume(
                    name="models",
                    persistent_volume_claim=client.V1PersistentVolumeClaimVolumeSource(
                        claim_name=deployment.label
                    ),
                )
            ],
        ),
    )


def script(deployment: Deployment) -> str:
    """A shell script that copies a version, and names it when it is whole."""
    base = MODELS / deployment.model_name
    name = f"{deployment.label}-upload"
    return f"""#!/bin/sh
# Copies a version of the model to the volume that the servers read: upload.sh [VERSION FOLDER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=${{1:-{_quoted(str(deployment.base / str(deployment.version)))}}}
number=$(basename "$version")
test -f "$version/saved_model.pb" || {{
    echo "$version: no saved_model.pb in it; give the folder of a version" >&2
    exit 2
}}
kubectl apply -f "$here/../volume-claim.yaml" -f "$here/pod.yaml"
trap 'kubectl delete pod {name} --now' EXIT
kubectl wait --for=condition=Ready pod/{name} --timeout=300s
kubectl exec {name} -- sh -ec 'test ! -e {base}/'"$number"' || {{
    echo "version '"$number"' is there already" >&2
    exit 2
}}
mkdir -p {base}
rm -rf {base}/.coming'
# The server takes whatever has a number for its name, so that name comes last.
kubectl cp "$version" {name}:{base}/.coming
kubectl exec {name} -- mv {base}/.coming {base}/"$number"
echo "version $number is on the volume"
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
