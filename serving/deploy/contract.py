"""What a deployment is told, and the contract of the targets it can be written for."""

import abc
import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from serving.server.url_folder import URL_POLL_SECONDS, URL_RETRIES, URL_RETRY_SECONDS

IMAGE = "tensorflow/serving:2.20.0"
PROGRAM = "/usr/bin/tensorflow_model_server"
GRPC_PORT, REST_PORT = 8500, 8501
# Folders inside the container.
MODELS, CONFIG = pathlib.PurePosixPath("/models"), pathlib.PurePosixPath("/config")
# A number, since Kubernetes cannot tell of a name whether it is root's.
USER = 10001
# A REST request may take half a minute; whoever waits longer loses no request by a stop.
DRAIN_SECONDS = 35

_BASE_LIMIT = 1.25


class Measured(NamedTuple):
    """What an export took, measured by loading it and answering its largest batches."""

    base_bytes: int  # the process before the export was loaded
    peak_bytes: int  # at most, while full batches of every signature ran
    load_seconds: float  # until it would have answered, warm-up requests included

    @property
    def model_bytes(self) -> int:
        """What one version adds."""
        return self.peak_bytes - self.base_bytes


@dataclass(frozen=True)
class Deployment:
    """What is to run.

    Attributes:
        model_name: Name that requests give.
        base: Folder of the model's versions, absolute.
        version: The newest of them.
        measured: What that took.
        cpus: Of one server, which makes as many threads.
        replicas: Servers at least.
        max_replicas: Servers at most.
        max_batch_size: Rows of a batch at most, and so of a request.
        batch_timeout_micros: A batch waits so long for more requests.
        storage_class: Of the volume that holds the versions; None for the cluster's default.
        service_account: As which pods run; None for the namespace's default.
        url: Where servers read the versions themselves, which `base` is then a copy of; None
            where they are given a folder.
    """

    model_name: str
    base: pathlib.Path
    version: int
    measured: Measured
    cpus: int = 2
    replicas: int = 2
    max_replicas: int = 10
    max_batch_size: int = 32
    batch_timeout_micros: int = 20000
    storage_class: str | None = None
    service_account: str | None = None
    url: str | None = None

    @property
    def label(self) -> str:
        """The model's name as names of services and Kubernetes' objects may be."""
        return re.sub(r"[^a-z0-9]+", "-", self.model_name.lower()).strip("-")[:40].strip("-")

    @property
    def served_base(self) -> str:
        """The folder of versions as the server sees it."""
        return self.url or str(MODELS / self.model_name)

    @property
    def request_bytes(self) -> int:
        """Memory that a server uses with one version."""
        return round(self.measured.peak_bytes * _BASE_LIMIT)

    @property
    def limit_bytes(self) -> int:
        """Memory that a server may use: a new version is loaded before the old one goes."""
        return round((self.measured.peak_bytes + self.measured.model_bytes) * _BASE_LIMIT)

    @property
    def arguments(self) -> list[str]:
        """Flags of `tensorflow_model_server`."""
        # Every request under way holds a thread, and two batches of them can be: one that runs
        # and one that fills.
        threads = 2 * self.max_batch_size
        return [
            f"--port={GRPC_PORT}",
            f"--rest_api_port={REST_PORT}",
            f"--model_config_file={CONFIG / 'models.config'}",
            f"--monitoring_config_file={CONFIG / 'monitoring.config'}",
            "--enable_batching=true",
            f"--batching_parameters_file={CONFIG / 'batching.config'}",
            f"--grpc_max_threads={threads}",
            f"--rest_api_num_threads={threads}",
            # It would take the machine's processors for its own.
            f"--tensorflow_intra_op_parallelism={self.cpus}",
            f"--tensorflow_inter_op_parallelism={self.cpus}",
            *self._loading,
        ]

    @property
    def _loading(self) -> list[str]:
        """Flags of how versions are looked for, and loaded."""
        if self.url is None:
            # Whoever restarts the container tries again; here its ports would stay closed.
            return ["--max_num_load_retries=0"]
        return [
            f"--file_system_poll_wait_seconds={URL_POLL_SECONDS}",
            f"--max_num_load_retries={URL_RETRIES}",
            f"--load_retry_interval_micros={URL_RETRY_SECONDS * 1_000_000}",
        ]


class Target(abc.ABC):
    """Contract of the family: writes a deployment down for one kind of machinery.

    The files run the image `IMAGE` as it is, so that nothing has to be built or pushed.
    """

    @abc.abstractmethod
    def files(self, deployment: Deployment) -> Mapping[str, str]:
        """The files of a folder.

        Args:
            deployment: What is to run.

        Returns:
            Text by path relative to the folder; one of them, `README.md`, says how to start.
        """
