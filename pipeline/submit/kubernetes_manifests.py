"""What Kubernetes is asked to run: a JobSet, or an indexed Job with a service for its names."""

import pathlib
from typing import Any

from models.errors import UserError
from pipeline.experiment.submit import KubernetesOptions
from pipeline.places import UrlPath
from pipeline.submit.contract import Job, Stage
from serving.deploy.kubernetes_yaml import kubernetes_models

API_VERSION = "jobset.x-k8s.io/v1alpha2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
JOB_LABEL = "seqloom/job"
_GPU = "nvidia.com/gpu"
_VOLUME = "workspace"
_USER_S_MISTAKE = 2


def manifests(job: Job, options: KubernetesOptions) -> list[Any]:
    """The objects to create, in their order: models of the client, or dictionaries.

    Raises:
        UserError: If the section lacks a key, or the job does not fit the kind.
    """
    _check(job, options)
    return _KINDS[options.kind](job, options)


def resource_name(job: Job) -> str:
    """Name of the JobSet or Job; of names of pods, which add to it, 63 characters are left."""
    return f"seqloom-{job.id}"


def host_pattern(job: Job, options: KubernetesOptions) -> str:
    """Names of the workers, with a place for the index, as the controllers give them."""
    name = resource_name(job)
    pod = f"{name}-train-0-%d" if options.kind == "jobset" else f"{name}-%d"
    return f"{pod}.{name}:{options.port}"


def _check(job: Job, options: KubernetesOptions) -> None:
    if options.image is None:
        raise UserError(
            "submit.kubernetes.image: not given; name the image that the pods run, with seqloom "
            "in it"
        )
    if not isinstance(job.workspace, UrlPath):
        _check_volume(job.workspace, options)
    if options.kind == "job" and len(job.stages) > 1:
        raise UserError(
            "submit.kubernetes.kind: a job runs one stage, since Jobs do not wait for one another; "
            "name it with --stage, or install the controller of JobSets and set kind to jobset"
        )


def _check_volume(workspace: pathlib.Path, options: KubernetesOptions) -> None:
    if options.volume_claim is None:
        raise UserError(
            "submit.kubernetes.volume_claim: not given; name the PersistentVolumeClaim with the "
            "workspace, which all pods mount, or a workspace at a URL such as gs://bucket/run"
        )
    if not workspace.is_relative_to(options.mount_path):
        raise UserError(
            f"workspace: {workspace} does not lie in submit.kubernetes.mount_path, "
            f"{options.mount_path}; pods see nothing else of this machine. Mount the volume there, "
            f"and name a workspace in it, or one at a URL"
        )


def _job_set(job: Job, options: KubernetesOptions) -> list[Any]:
    """All stages in one JobSet, each after the one before.

    A process that fails fails its Job, and with that all of it is started again: stages that are
    done see so, and end at once.
    """
    client = kubernetes_models()
    name = resource_name(job)
    replicated = []
    for position, stage in enumerate(job.stages):
        described: dict[str, Any] = {
            "name": stage,
            "replicas": 1,
            "template": {"spec": _job_spec(job, stage, options, backoff_limit=0)},
        }
        if position:
            described["dependsOn"] = [{"name": job.stages[position - 1], "status": "Complete"}]
        replicated.append(described)
    spec = {
        "replicatedJobs": replicated,
        "network": {
            "enableDNSHostnames": True,
            "subdomain": name,
            "publishNotReadyAddresses": True,  # Workers look for one another before they work.
        },
        "successPolicy": {"operator": "All"},
        "failurePolicy": {
            "maxRestarts": job.max_restarts,
            "rules": [
                {
                    "name": "mistake",
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                }
            ],
        },
    }
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "JobSet",
            "metadata": client.V1ObjectMeta(**_metadata(job, options)),
            "spec": spec,
        }
    ]


def _indexed_job(job: Job, options: KubernetesOptions) -> list[Any]:
    """One stage as a plain Job, and the service that its pods have their names from.

    A pod that fails is started again by itself. The others lose it, end for a restart, and are
    started again too: each of them counts, so that the limit is that many times higher.
    """
    client = kubernetes_models()
    (stage,) = job.stages
    name = resource_name(job)
    service = client.V1Service(
        api_version="v1",
        kind="Service",
        metadata=client.V1ObjectMeta(**_metadata(job, options)),
        spec=client.V1ServiceSpec(
            cluster_ip="None",
            selector={JOB_LABEL: job.id},
            publish_not_ready_addresses=True,
        ),
    )
    limit = job.max_restarts * job.processes(stage)
    run = client.V1Job(
        api_version="batch/v1",
        kind="Job",
        metadata=client.V1ObjectMeta(**_metadata(job, options)),
        spec=_job_spec(job, stage, options, backoff_limit=limit, subdomain=name),
    )
    return [service, run]


_KINDS = {"jobset": _job_set, "job": _indexed_job}


def _metadata(job: Job, options: KubernetesOptions) -> dict[str, Any]:
    labels = {JOB_LABEL: job.id}
    if options.queue is not None:
        labels[QUEUE_LABEL] = options.queue
    return {"name": resource_name(job), "namespace": options.namespace, "labels": labels}


def _job_spec(
    job: Job,
    stage: Stage,
    options: KubernetesOptions,
    backoff_limit: int,
    subdomain: str | None = None,
) -> Any:
    client = kubernetes_models()
    count = job.processes(stage)
    mistake = client.V1PodFailurePolicyRule(
        action="FailJob",
        on_exit_codes=client.V1PodFailurePolicyOnExitCodesRequirement(
            container_name=stage, operator="In", values=[_USER_S_MISTAKE]
        ),
    )
    return client.V1JobSpec(
        completion_mode="Indexed",
        completions=count,
        parallelism=count,
        backoff_limit=backoff_limit,
        pod_failure_policy=client.V1PodFailurePolicy(rules=[mistake]),
        template=client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels={JOB_LABEL: job.id}),
            spec=client.V1PodSpec(
                restart_policy="Never",
                subdomain=subdomain,
                service_account_name=options.service_account,
                node_selector=options.node_selector or None,
                termination_grace_period_seconds=max(round(job.grace_seconds), 1),
                containers=[_container(job, stage, options)],
                volumes=_volumes(options),
            ),
        ),
    )


def _volumes(options: KubernetesOptions) -> list[Any] | None:
    """The volume, if there is one: a workspace at a URL needs none."""
    if options.volume_claim is None:
        return None
    client = kubernetes_models()
    source = client.V1PersistentVolumeClaimVolumeSource(claim_name=options.volume_claim)
    return [client.V1Volume(name=_VOLUME, persistent_volume_claim=source)]


def _container(job: Job, stage: Stage, options: KubernetesOptions) -> Any:
    client = kubernetes_models()
    gpus = job.gpus_per_worker if stage == "train" else 0
    wanted = {"cpu": str(options.cpus_per_worker), "memory": options.memory_per_worker}
    limits = {"memory": options.memory_per_worker} | ({_GPU: str(gpus)} if gpus else {})
    variables = {
        **job.environment,
        "SEQLOOM_HOSTS": host_pattern(job, options),
        "SEQLOOM_WORKERS": str(job.processes(stage)),
    }
    mounted = options.volume_claim is not None
    in_volume = mounted and job.directory.is_relative_to(options.mount_path)
    mount = client.V1VolumeMount(name=_VOLUME, mount_path=options.mount_path)
    return client.V1Container(
        name=stage,
        image=options.image,
        command=["python", "-P", "-m", "pipeline.submit.kubernetes_task"],
        args=[str(job.folder), stage, *job.arguments(stage)],
        # Elsewhere the image's own folder, which holds the shipped experiments and their data.
        working_dir=str(job.directory) if in_volume else None,
        env=[client.V1EnvVar(name=name, value=value) for name, value in variables.items()],
        resources=client.V1ResourceRequirements(requests=wanted, limits=limits),
        volume_mounts=[mount] if mounted else None,
    )
