"""What runs the whole stage: one Beam pipeline, or an array of jobs with a part of it each."""

from collections.abc import Callable

from models.errors import UserError
from pipeline.experiment import Experiment
from pipeline.experiment_file import workspace_of
from pipeline.places import is_url, no_url
from pipeline.prepare.array import ArrayRun
from pipeline.prepare.job import Job
from pipeline.prepare.pictures import picture_folder
from pipeline.prepare.pipeline import build
from pipeline.prepare.readers import make_reader
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
        root = workspace_of(experiment).root
        no_url(root, "no logs of an array, whose nodes share a folder, can lie", "workspace")
        return ArrayRun(cluster, SlurmArray(experiment.submit.slurm)).run
    if cluster.runner == "dataflow":
        _check_urls(job)
    run = PipelineRun(cluster, job.logs)
    return lambda job, blocks, poll: run.run(lambda pipeline: build(pipeline, job, blocks), poll)


def _check_urls(job: Job) -> None:
    """Hold what is read and written to lying where workers without a shared folder see it."""
    corpora = [path for _, corpus in job.inputs for path in make_reader(corpus).paths()]
    pictures = [picture_folder(corpus) for _, corpus in job.inputs if job.reads_pictures]
    for key, path in [
        ("folder", str(job.folder)),
        *(("train, valid, test", each) for each in [*corpora, *pictures]),
    ]:
        if not is_url(path):
            raise UserError(
                f"data.{key}: {path} is on this machine, which Dataflow's workers do not see; "
                f"name a URL such as gs://BUCKET/{path.rpartition('/')[2]}"
            )
