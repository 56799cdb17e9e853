"""What runs the whole stage: one Beam pipeline, or an array of jobs with a part of it each."""

from collections.abc import Callable

from pipeline.experiment import Experiment
from pipeline.prepare.array import ArrayRun
from pipeline.prepare.job import Job
from pipeline.prepare.pipeline import build
from pipeline.prepare.reading import Block
from pipeline.prepare.runner import PipelineRun
from pipeline.prepare.slurm_array import SlurmArray

# Runs a job over all blocks, calling the last argument several times a second, and gives Beam's
# counters, if it keeps any; the report is then at the job's `report_path`.
Engine = Callable[[Job, list[Block], Callable[[], None]], dict[str, int]]


def make_engine(experiment: Experiment, job: Job) -> Engine:
    """The engine that an experiment names.

    Raises:
        UserError: If it is refused, unknown, or lacks an option.
    """
    cluster = experiment.cluster
    if cluster.runner == "slurm":
        return ArrayRun(cluster, SlurmArray(experiment.submit.slurm)).run
    run = PipelineRun(cluster, job.logs)
    return lambda job, blocks, poll: run.run(lambda pipeline: build(pipeline, job, blocks), poll)
