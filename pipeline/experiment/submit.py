"""The section `submit`: where jobs run, and how many processes they get."""

from typing import Literal

from pydantic import Field, PositiveFloat

from pipeline.experiment.section import NonNegativeInt, PositiveInt, Section


class SlurmOptions(Section):
    """What Slurm is asked for, by the jobs of `submit` and the arrays of `prepare`."""

    partition: str | None = Field(None, description="The cluster's own if null.")
    account: str | None = Field(None, description="The user's own if null.")
    time_limit: str | None = Field(
        None,
        pattern=r"^(\d+-)?\d+(:\d+){0,2}$",
        description="Of a stage, as Slurm writes it: minutes, HH:MM:SS, D-HH:MM:SS.",
    )
    save_seconds: PositiveInt = Field(
        120, description="Before the time limit: a training then saves and is queued again."
    )
    cpus_per_worker: PositiveInt = 1
    memory_per_worker: str | None = Field(
        None, pattern=r"^\d+[KMGT]?$", description="As Slurm writes it: 8G; its own if null."
    )
    port: int = Field(
        23_000, ge=1024, le=64_000, description="First of the ports that workers train by."
    )
    options: list[str] = Field([], description="Further options of sbatch: --exclude=n7.")


class KubernetesOptions(Section):
    """What the manifests say of this cluster."""

    kind: Literal["jobset", "job"] = Field(
        "jobset", description="A JobSet, or an indexed Job where its controller is not installed."
    )
    namespace: str | None = Field(None, description="kubectl's own if null.")
    context: str | None = Field(None, description="Of kubectl's configuration; its own if null.")
    image: str | None = Field(None, description="With seqloom in it; needed.")
    volume_claim: str | None = Field(
        None,
        description="PersistentVolumeClaim with the workspace, for many writers; needed unless "
        "that is at a URL.",
    )
    mount_path: str = Field(
        "/seqloom", pattern="^/", description="Where it is mounted, here and in the pods."
    )
    cpus_per_worker: PositiveInt = 1
    memory_per_worker: str = Field("4Gi", pattern=r"^\d+(\.\d+)?([KMGT]i?)?$")
    queue: str | None = Field(None, description="Kueue's queue, as a label; none if null.")
    service_account: str | None = None
    node_selector: dict[str, str] = {}
    port: int = Field(23_000, ge=1024, le=65_535, description="That workers train by.")


class SubmitSection(Section):
    """What `seqloom submit` hands a job over with."""

    to: Literal["local", "slurm", "kubernetes"] = "local"
    workers: PositiveInt = Field(1, description="Processes that train together.")
    gpus_per_worker: NonNegativeInt = 0
    max_restarts: NonNegativeInt = Field(
        10, description="How often a stage that failed or was interrupted is started again."
    )
    grace_seconds: PositiveFloat = Field(
        30.0, description="From SIGTERM, or the end of one process of a gang, to SIGKILL."
    )
    environment: dict[str, str] = Field({}, description="Variables of the job's processes.")
    slurm: SlurmOptions = SlurmOptions()
    kubernetes: KubernetesOptions = KubernetesOptions()
