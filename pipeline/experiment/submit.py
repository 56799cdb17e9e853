"""The section `submit`: where jobs run, and how many processes they get."""

from typing import Literal

from pydantic import Field

from pipeline.experiment.section import NonNegativeInt, PositiveInt, Section


class SubmitSection(Section):
    """What `seqloom submit` hands a job over with."""

    to: Literal["local", "slurm", "kubernetes"] = "local"
    workers: PositiveInt = Field(1, description="Processes that train together.")
    gpus_per_worker: NonNegativeInt = 0
    max_restarts: NonNegativeInt = Field(
        10, description="How often a stage that failed or was interrupted is started again."
    )
    environment: dict[str, str] = Field({}, description="Variables of the job's processes.")
