"""Apache Beam, imported without its chatter.

Beam warns on import about client libraries of cloud stores that this project does not
use. Every module of this package takes what it needs of Beam from here.
"""

import logging


def _import_quietly():
    root = logging.getLogger()
    silence = logging.NullHandler()
    # With a handler in place the warning does not install Python's default one on the root.
    root.addHandler(silence)
    disabled = root.manager.disable
    logging.disable(logging.WARNING)
    try:
        import apache_beam
    finally:
        logging.disable(disabled)
        root.removeHandler(silence)
    return apache_beam


beam = _import_quietly()

from apache_beam.io.filesystem import BeamIOError  # noqa: E402
from apache_beam.io.filesystems import FileSystems  # noqa: E402
from apache_beam.metrics.metric import MetricsFilter  # noqa: E402
from apache_beam.options.pipeline_options import (  # noqa: E402
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    SparkRunnerOptions,
    WorkerOptions,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner  # noqa: E402
from apache_beam.runners.portability.fn_api_runner.worker_handlers import (  # noqa: E402
    GrpcWorkerHandler,
    WorkerHandler,
)
from apache_beam.runners.runner import PipelineResult, create_runner  # noqa: E402
from apache_beam.transforms.environments import (  # noqa: E402
    EmbeddedPythonGrpcEnvironment,
    Environment,
    SubprocessSDKEnvironment,
)

__all__ = [
    "BeamIOError",
    "EmbeddedPythonGrpcEnvironment",
    "Environment",
    "FileSystems",
    "FlinkRunnerOptions",
    "FnApiRunner",
    "GoogleCloudOptions",
    "GrpcWorkerHandler",
    "MetricsFilter",
    "PipelineOptions",
    "PipelineResult",
    "PortableOptions",
    "SetupOptions",
    "SparkRunnerOptions",
    "SubprocessSDKEnvironment",
    "WorkerHandler",
    "WorkerOptions",
    "beam",
    "create_runner",
]
