"""The contract of a preset: one of Beam's runners, with what it needs to run the stage."""

import abc
import pathlib
from typing import ClassVar

import pipeline
from models.errors import UserError
from pipeline.experiment import ClusterSection
from pipeline.prepare.engine import PipelineOptions, SetupOptions


class Preset(abc.ABC):
    """Contract of the family: flags that stand before the experiment's own, and what must be given.

    Args:
        cluster: The experiment's section.

    Attributes:
        beam_name: Beam's name of the runner.
    """

    beam_name: ClassVar[str]

    def __init__(self, cluster: ClusterSection):
        self.cluster = cluster

    @abc.abstractmethod
    def flags(self) -> list[str]:
        """Flags of Beam's that the experiment's own override."""

    @abc.abstractmethod
    def check(self, options: PipelineOptions) -> None:
        """Hold the options, the experiment's own among them, to being enough to run.

        Raises:
            UserError: If one is missing; it says which and what it looks like.
        """

    def missing(self, flag: str, meaning: str) -> UserError:
        """The mistake that a flag was not given."""
        return UserError(
            f"cluster.runner: {self.cluster.runner} needs {flag}, {meaning}; give it in "
            f"cluster.beam_options, or after -- on the command line"
        )


def stage_project(options: PipelineOptions) -> None:
    """Have workers that start without the project install it, unless the user saw to that.

    Raises:
        UserError: If there is no setup.py to build it from.
    """
    setup = options.view_as(SetupOptions)
    if setup.setup_file or setup.extra_packages:
        return
    file = pathlib.Path(pipeline.__file__).parents[1] / "setup.py"
    if not file.is_file():
        raise UserError(
            f"{file}: no such file, and workers elsewhere install the project from it; give "
            f"--setup_file=PATH of one in a checkout of the project, or --extra_package=WHEEL"
        )
    setup.setup_file = str(file)
