"""Any runner that speaks Beam's job API."""

from pipeline.prepare.engine import PipelineOptions, PortableOptions
from pipeline.prepare.runners.contract import Preset, stage_project


class PortablePreset(Preset):
    """`PortableRunner`: a job service at `--job_endpoint` runs the pipeline.

    Its workers are of `--environment_type` EXTERNAL, a worker pool that has been started with the
    project on its path; or DOCKER, containers of `--environment_config`, or Beam's own into which
    the project is installed.
    """

    beam_name = "PortableRunner"

    def flags(self) -> list[str]:
        """Containers, as Beam itself would have it."""
        return ["--environment_type=DOCKER"]

    def check(self, options: PipelineOptions) -> None:
        """Hold the options to naming a job service and workers."""
        if not options.view_as(PortableOptions).job_endpoint:
            raise self.missing("--job_endpoint", "the job service, as HOST:PORT")
        self.check_environment(options)

    def check_environment(self, options: PipelineOptions) -> None:
        """Hold the options to naming workers that have the project."""
        portable = options.view_as(PortableOptions)
        named = portable.environment_config or portable.environment_options
        if portable.environment_type == "EXTERNAL" and not named:
            raise self.missing("--environment_config", "the worker pool, as HOST:PORT")
        if portable.environment_type == "PROCESS" and not named:
            raise self.missing("--environment_config", 'the command, as {"command": "PATH"}')
        if portable.environment_type == "DOCKER" and not named:
            stage_project(options)
