"""Google Cloud Dataflow."""

from pipeline.prepare.engine import GoogleCloudOptions, PipelineOptions, WorkerOptions
from pipeline.prepare.runners.contract import Preset, stage_project

_NEEDED = {
    "project": "the Cloud project that pays",
    "region": "where the workers run, as europe-west4",
    "temp_location": "a folder for staged files, as gs://BUCKET/temp",
}


class DataflowPreset(Preset):
    """`DataflowRunner`: workers install the project from its setup.py, or come with it.

    They share no folder with this machine, so that data lies at a URL.
    """

    beam_name = "DataflowRunner"

    def flags(self) -> list[str]:
        """None: nothing can be guessed."""
        return []

    def check(self, options: PipelineOptions) -> None:
        """Hold the options to naming project, region and a place for staged files."""
        cloud = options.view_as(GoogleCloudOptions)
        for name, meaning in _NEEDED.items():
            if not getattr(cloud, name):
                raise self.missing(f"--{name}", meaning)
        if not cloud.temp_location.startswith("gs://"):
            raise self.missing("--temp_location at gs://", f"not {cloud.temp_location}")
        if not options.view_as(WorkerOptions).sdk_container_image:
            stage_project(options)
