"""The cores of this machine."""

import os

from pipeline.experiment import ClusterSection
from pipeline.prepare.engine import PipelineOptions
from pipeline.prepare.runners.contract import Preset


class LocalPreset(Preset):
    """`FnApiRunner`: the local runner that Beam's `DirectRunner` turns to as well.

    `DirectRunner` itself tries to download another one first.
    """

    beam_name = "FnApiRunner"

    def flags(self) -> list[str]:
        """As many workers as asked for."""
        return [f"--direct_num_workers={worker_count(self.cluster)}"]

    def check(self, options: PipelineOptions) -> None:
        """Nothing more is needed."""


def worker_count(cluster: ClusterSection) -> int:
    """Workers on this machine: as many as the experiment says, or one a core."""
    if cluster.running_mode == "in_memory":
        return 1
    return cluster.workers or _cores()


def _cores() -> int:
    # Not all platforms can say which cores this process may use.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
