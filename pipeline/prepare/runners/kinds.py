"""The presets by name."""

from models.errors import UserError
from pipeline.experiment import ClusterSection
from pipeline.prepare.runners.contract import Preset
from pipeline.prepare.runners.dataflow import DataflowPreset
from pipeline.prepare.runners.flink import FlinkPreset
from pipeline.prepare.runners.local import LocalPreset
from pipeline.prepare.runners.other import OtherRunner
from pipeline.prepare.runners.portable import PortablePreset
from pipeline.prepare.runners.spark import SparkPreset

PRESETS: dict[str, type[Preset]] = {
    "local": LocalPreset,
    "portable": PortablePreset,
    "flink": FlinkPreset,
    "spark": SparkPreset,
    "dataflow": DataflowPreset,
}


def make_preset(cluster: ClusterSection) -> Preset:
    """The preset of an experiment.

    Raises:
        UserError: If its runner is one that does not keep every record.
    """
    if "dask" in cluster.runner.lower():
        raise UserError(
            f"cluster.runner: {cluster.runner} is refused, because Beam's runner on Dask loses "
            "records without a word. Use local, which takes all cores of one machine, or a runner "
            "for a cluster: flink, spark, dataflow, slurm"
        )
    return PRESETS.get(cluster.runner, OtherRunner)(cluster)
