"""Presets: flags, what is missing told, and pipelines that another runner could be given."""

import dataclasses
import pathlib
import tarfile

import pytest

from models.errors import UserError
from pipeline.experiment import ClusterSection
from pipeline.places import UrlPath
from pipeline.prepare.engine import PipelineOptions, PortableOptions, SetupOptions, beam
from pipeline.prepare.engines import make_engine
from pipeline.prepare.job import make_job
from pipeline.prepare.pipeline import build
from pipeline.prepare.plan import inspect_inputs
from pipeline.prepare.runner import PipelineRun
from pipeline.prepare.runners.kinds import PRESETS, make_preset
from pipeline.workspace import Workspace

from apache_beam.runners.portability.flink_runner import FlinkRunner  # isort: skip
from apache_beam.runners.portability.portable_runner import PortableRunner  # isort: skip
from apache_beam.runners.portability.spark_runner import SparkRunner  # isort: skip
from apache_beam.runners.portability.stager import Stager  # isort: skip

POOL = ["--environment_type=EXTERNAL", "--environment_config=pool:50000"]
CLOUD = ["--project=p", "--region=europe-west4", "--temp_location=gs://bucket/temp"]


def options_of(runner, *flags):
    preset = make_preset(ClusterSection(runner=runner, beam_options=list(flags)))
    options = PipelineOptions([*preset.flags(), *flags])
    preset.check(options)
    return options


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("FnApiRunner", "local"),
        ("DirectRunner", "local"),
        ("PortableRunner", "portable"),
        ("FlinkRunner", "flink"),
        ("sparkrunner", "spark"),
        ("Dataflow", "dataflow"),
        ("slurm", "slurm"),
        ("my.package.OwnRunner", "my.package.OwnRunner"),
    ],
)
def test_a_runner_has_one_name(given, name):
    assert ClusterSection(runner=given).runner == name


def test_presets_name_runners_that_beam_has():
    for name, preset in PRESETS.items():
        assert preset.beam_name.lower() in (f"{name}runner", "fnapirunner")
    assert make_preset(ClusterSection(runner="my.OwnRunner")).beam_name == "my.OwnRunner"


@pytest.mark.parametrize(
    ("runner", "flags", "wanted"),
    [
        ("portable", POOL, "--job_endpoint"),
        ("portable", ["--job_endpoint=h:1", "--environment_type=EXTERNAL"], "--environment_config"),
        ("portable", ["--job_endpoint=h:1", "--environment_type=PROCESS"], "--environment_config"),
        ("flink", POOL, "--flink_master"),
        ("flink", ["--flink_master=h:1", "--environment_type=EXTERNAL"], "--environment_config"),
        ("spark", POOL, "--spark_master_url"),
        ("spark", ["--spark_master_url=local[2]", *POOL], "--spark_master_url"),
        ("dataflow", CLOUD[1:], "--project"),
        ("dataflow", CLOUD[:1], "--region"),
        ("dataflow", CLOUD[:2], "--temp_location"),
        ("dataflow", [*CLOUD[:2], "--temp_location=/tmp/x"], "--temp_location at gs://"),
    ],
)
def test_a_missing_flag_is_told(runner, flags, wanted):
    with pytest.raises(UserError, match=f"cluster.runner: {runner} needs {wanted}"):
        options_of(runner, *flags)


def test_a_run_is_held_to_the_flags_of_its_preset(tmp_path):
    with pytest.raises(UserError, match="needs --flink_master"):
        PipelineRun(ClusterSection(runner="FlinkRunner"), tmp_path)


@pytest.mark.parametrize(
    ("runner", "flags", "is_staged"),
    [
        ("portable", ["--job_endpoint=h:1"], True),
        ("portable", ["--job_endpoint=h:1", *POOL], False),
        ("portable", ["--job_endpoint=h:1", "--environment_config=own:image"], False),
        ("flink", ["--flink_master=h:8081"], True),
        ("spark", ["--spark_master_url=spark://h:7077"], True),
        ("dataflow", CLOUD, True),
        ("dataflow", [*CLOUD, "--sdk_container_image=own:image"], False),
        ("dataflow", [*CLOUD, "--extra_package=seqloom.whl"], False),
    ],
)
def test_workers_without_the_project_are_sent_it(runner, flags, is_staged):
    file = options_of(runner, *flags).view_as(SetupOptions).setup_file
    assert (file is not None) == is_staged
    if is_staged:
        assert pathlib.Path(file).name == "setup.py" and pathlib.Path(file).is_file()


def test_what_is_staged_holds_all_packages(tmp_path):
    """Beam builds a source distribution of our setup.py, as it does for Dataflow."""
    options = options_of("dataflow", *CLOUD)
    staged = Stager.create_job_resources(options, str(tmp_path))
    (archive,) = tmp_path.glob("*.tar.gz")
    assert any("workflow.tar.gz" in str(each) for each in staged)
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"setup.py", "pipeline/prepare/stages.py", "models/errors.py"} <= names
    assert "pipeline/prepare/runners/kinds.py" in names


@pytest.mark.parametrize(
    ("folder", "path", "named"),
    [(None, "gs://b/x.tsv", "folder"), ("gs://b/data", "x.tsv", "train")],
)
def test_dataflow_is_held_to_urls(make_experiment, tmp_path, folder, path, named):
    experiment = make_experiment(
        [{"format": "tsv", "path": path}],
        data={"folder": folder},
        cluster={"runner": "dataflow", "running_mode": "multi_processing"},
    )
    job = make_job(experiment, Workspace(tmp_path / "run"), tmp_path / "out")
    if folder:
        job = dataclasses.replace(job, folder=UrlPath(folder))
    with pytest.raises(UserError, match=f"data.{named}.*which Dataflow's workers do not see"):
        make_engine(experiment, job)


@pytest.fixture
def pipeline_of(make_experiment, write_tsv, make_pairs, tmp_path):
    """The whole stage's pipeline, for some options."""

    def make(options):
        experiment = make_experiment([{"format": "tsv", "path": write_tsv(make_pairs(20))}])
        job = make_job(experiment, Workspace(tmp_path / "run"), tmp_path / "out")
        inputs = inspect_inputs(job.data, job.unpacked)
        pipeline = beam.Pipeline(runner="FnApiRunner", options=options)
        build(pipeline, job, [block for each in inputs for block in each.blocks()])
        return pipeline

    return make


@pytest.mark.parametrize(
    ("runner", "kind", "flags"),
    [
        ("portable", PortableRunner, ["--job_endpoint=h:1"]),
        ("flink", FlinkRunner, ["--flink_master=h:8081"]),
        ("spark", SparkRunner, ["--spark_master_url=spark://h:7077"]),
    ],
)
def test_the_pipeline_can_be_handed_over(pipeline_of, runner, kind, flags):
    """Every step is Python's or one that all runners know, in the workers that were named."""
    options = options_of(runner, *flags, *POOL)
    assert options.view_as(PortableOptions).environment_type == "EXTERNAL"
    proto = kind.get_proto_pipeline(pipeline_of(options), options)
    (environment,) = proto.components.environments.values()
    assert environment.urn == "beam:env:external:v1"
    assert b"pool:50000" in environment.payload
    leaves = [each for each in proto.components.transforms.values() if not each.subtransforms]
    urns = {each.spec.urn for each in leaves}
    assert urns - {""} <= {
        "beam:transform:impulse:v1",
        "beam:transform:pardo:v1",
        "beam:transform:group_by_key:v1",
        "beam:transform:flatten:v1",
        "beam:transform:combine_per_key_precombine:v1",
        "beam:transform:combine_per_key_merge_accumulators:v1",
        "beam:transform:combine_per_key_extract_outputs:v1",
        "beam:transform:reshuffle:v1",
    }
    for each in leaves:
        if each.spec.urn == "beam:transform:pardo:v1":
            assert each.environment_id in proto.components.environments
