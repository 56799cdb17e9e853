"""Kubernetes: the stages of a job as one JobSet, or one of them as a Job."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from models.errors import UserError
from pipeline.submit.contract import ENDED, JobHandle, Launcher, Stage, Status
from pipeline.submit.contract import Job as SubmittedJob
from pipeline.submit.kubernetes_manifests import API_VERSION, manifests, resource_name
from pipeline.submit.log_files import read_logs
from serving.deploy.kubernetes_yaml import kubernetes_models, to_yaml

_GROUP, _VERSION = API_VERSION.split("/")
_JOBSETS = "jobsets"
_NOT_FOUND = 404
_ASK_SECONDS = 2.0


class KubernetesLauncher(Launcher):
    """Jobs of a cluster, asked for by Kubernetes' own client as kubectl is set up.

    Pods read the experiment and keep their logs where the workspace is, on a volume or at a URL.
    """

    jobs_at_urls = True

    def plan(self, job: SubmittedJob) -> str:
        """The manifests, as `kubectl apply -f -` takes them."""
        return to_yaml(manifests(job, self.options.kubernetes))

    def submit(self, job: SubmittedJob) -> dict[str, Any]:
        """Create the objects."""
        made = manifests(job, self.options.kubernetes)
        cluster = _Cluster(self.options.kubernetes.context, self.options.kubernetes.namespace)
        native = {
            "kind": self.options.kubernetes.kind,
            "context": cluster.context,
            "namespace": cluster.namespace,
            "name": resource_name(job),
        }
        try:
            for manifest in made:
                cluster.create(manifest)
        except BaseException:
            with contextlib.suppress(UserError):
                cluster.delete(native)
            raise
        return native

    def status(self, handle: JobHandle) -> Status:
        """What the controller says."""
        if (handle.job.folder / "cancelled").exists():
            return Status("cancelled")
        found = self._cluster_of(handle).read(handle.native)
        if found is None:
            return Status("lost", detail="the cluster does not know it any more")
        told = found.get("status") or {}
        running = told.get("replicatedJobsStatus") or [{"name": handle.job.stages[0], **told}]
        restarts = int(told.get("restarts") or 0)
        stage = _first(running, "active") or _first(running, "failed")
        so = {
            each["type"]: each.get("message", "")
            for each in told.get("conditions") or ()
            if each["status"] == "True"
        }
        if "Completed" in so or "Complete" in so:
            return Status("done", handle.job.stages[-1], restarts)
        if "Failed" in so:
            return Status("failed", stage, restarts, so["Failed"])
        if _first(running, "active"):
            return Status("running", stage, restarts)
        return Status("waiting", stage, restarts, so.get("Suspended", ""))

    def logs(self, handle: JobHandle, follow: bool) -> Iterator[str]:
        """Lines of the files that the containers write into the job's folder."""
        ended = (lambda: self.status(handle).state in ENDED) if follow else None
        return read_logs(handle.job.logs, ended, _ASK_SECONDS)

    def cancel(self, handle: JobHandle) -> None:
        """Delete the objects, and with them their pods, which are asked by SIGTERM first."""
        self._cluster_of(handle).delete(handle.native)
        (handle.job.folder / "cancelled").touch()

    def _cluster_of(self, handle: JobHandle) -> "_Cluster":
        return _Cluster(handle.native["context"], handle.native["namespace"])


class _Cluster:
    """The calls that a launcher needs.

    Args:
        context: Of kubectl's configuration; its current one if None.
        namespace: That of the context if None.

    Attributes:
        context: Its name: the current one may be another when the job is asked for.
        namespace: Where the objects are.
    """

    def __init__(self, context: str | None, namespace: str | None):
        self._client = kubernetes_models()
        from kubernetes import config

        try:
            contexts, current = config.list_kube_config_contexts()
            api = config.new_client_from_config(context=context)
        except config.ConfigException as error:
            raise UserError(
                f"submit.kubernetes.context: no cluster is configured ({error}); set kubectl up, "
                f"or see the manifests by --dry-run"
            ) from None
        named = {each["name"]: each["context"] for each in contexts}
        self.context = context or current["name"]
        self.namespace = namespace or named[self.context].get("namespace") or "default"
        self._jobsets = self._client.CustomObjectsApi(api)
        self._jobs = self._client.BatchV1Api(api)
        self._core = self._client.CoreV1Api(api)
        self._api = api

    def create(self, manifest: Any) -> None:
        """Create one object.

        Raises:
            UserError: If the cluster refuses it.
        """
        plain = self._api.sanitize_for_serialization(manifest)
        place = self.namespace
        self._ask(
            {
                "JobSet": lambda: self._jobsets.create_namespaced_custom_object(
                    _GROUP, _VERSION, place, _JOBSETS, plain
                ),
                "Job": lambda: self._jobs.create_namespaced_job(place, plain),
                "Service": lambda: self._core.create_namespaced_service(place, plain),
            }[plain["kind"]]
        )

    def read(self, native: dict[str, Any]) -> dict[str, Any] | None:
        """The JobSet or Job as the cluster has it; None if it has none."""
        name = native["name"]
        found = self._ask(
            {
                "jobset": lambda: self._jobsets.get_namespaced_custom_object(
                    _GROUP, _VERSION, self.namespace, _JOBSETS, name
                ),
                "job": lambda: self._jobs.read_namespaced_job(name, self.namespace),
            }[native["kind"]]
        )
        return None if found is None else self._api.sanitize_for_serialization(found)

    def delete(self, native: dict[str, Any]) -> None:
        """Delete all objects of a job."""
        name, place = native["name"], self.namespace
        options = {"propagation_policy": "Foreground"}
        if native["kind"] == "jobset":
            self._ask(
                lambda: self._jobsets.delete_namespaced_custom_object(
                    _GROUP, _VERSION, place, _JOBSETS, name, **options
                )
            )
            return
        self._ask(lambda: self._jobs.delete_namespaced_job(name, place, **options))
        self._ask(lambda: self._core.delete_namespaced_service(name, place))

    def _ask(self, call: Any) -> Any:
        """The outcome of a call; None if there is no such object."""
        from urllib3.exceptions import HTTPError

        try:
            return call()
        except self._client.ApiException as error:
            if error.status == _NOT_FOUND and "page not found" not in str(error.body):
                return None
            raise UserError(
                f"the cluster refuses: {error.status} {error.reason}: {_message(error)}"
            ) from None
        except HTTPError as error:
            raise UserError(f"the cluster does not answer: {error}") from None


def _first(stages: list[dict[str, Any]], count: str) -> Stage | None:
    """The first stage that has processes of a kind."""
    return next((each["name"] for each in stages if each.get(count)), None)


def _message(error: Any) -> str:
    try:
        return json.loads(error.body)["message"]
    except (ValueError, TypeError, KeyError):
        return str(error.body).strip() or "without a reason"
