"""The section of `deploy`: what TensorFlow Serving is given where it runs."""

from pydantic import Field

from pipeline.experiment.section import NonNegativeInt, PositiveInt, Section


class DeploySection(Section):
    """One server's share of a machine, and how many servers there are."""

    cpus: PositiveInt = Field(2, description="Of one server, which makes as many threads.")
    max_batch_size: PositiveInt = Field(32, description="Rows of a batch, and of a request.")
    batch_timeout_micros: NonNegativeInt = Field(
        20000, description="A batch waits so long for more requests."
    )
    replicas: PositiveInt = Field(2, description="Servers at least (kubernetes).")
    max_replicas: PositiveInt = Field(10, description="Servers at most (kubernetes).")
    storage_class: str | None = Field(
        None, description="Of the volume with the versions (kubernetes); null is the default one."
    )
    service_account: str | None = Field(
        None, description="As which servers read versions at a URL (kubernetes)."
    )
