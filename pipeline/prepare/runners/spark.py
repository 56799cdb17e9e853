"""Apache Spark."""

from pipeline.prepare.engine import PipelineOptions, PortableOptions, SparkRunnerOptions
from pipeline.prepare.runners.portable import PortablePreset


class SparkPreset(PortablePreset):
    """`SparkRunner`: Beam starts a job server in Java, or uses the one at `--job_endpoint`."""

    beam_name = "SparkRunner"

    def check(self, options: PipelineOptions) -> None:
        """Hold the options to naming a cluster and workers."""
        spark = options.view_as(SparkRunnerOptions)
        is_local = spark.spark_master_url.startswith("local")
        named = spark.spark_rest_url or options.view_as(PortableOptions).job_endpoint
        if is_local and not named:
            raise self.missing("--spark_master_url", "the cluster, as spark://HOST:7077")
        self.check_environment(options)
