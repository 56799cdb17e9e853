"""Runners that have no preset."""

from pipeline.prepare.engine import PipelineOptions
from pipeline.prepare.runners.contract import Preset


class OtherRunner(Preset):
    """A runner that Beam knows by the name that the experiment gives, with the flags it gives."""

    @property
    def beam_name(self) -> str:  # type: ignore[override]
        """The name in the experiment."""
        return self.cluster.runner

    def flags(self) -> list[str]:
        """None."""
        return []

    def check(self, options: PipelineOptions) -> None:
        """What it needs it says itself."""
