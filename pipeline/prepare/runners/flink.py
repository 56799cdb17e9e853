"""Apache Flink."""

from pipeline.prepare.engine import FlinkRunnerOptions, PipelineOptions, PortableOptions
from pipeline.prepare.runners.portable import PortablePreset

_LOCAL_MASTERS = ("[auto]", "[local]")


class FlinkPreset(PortablePreset):
    """`FlinkRunner`: Beam starts a job server in Java, or uses the one at `--job_endpoint`."""

    beam_name = "FlinkRunner"

    def check(self, options: PipelineOptions) -> None:
        """Hold the options to naming a cluster and workers."""
        master = options.view_as(FlinkRunnerOptions).flink_master
        if master in _LOCAL_MASTERS and not options.view_as(PortableOptions).job_endpoint:
            raise self.missing("--flink_master", "the cluster's REST address, as HOST:8081")
        self.check_environment(options)
