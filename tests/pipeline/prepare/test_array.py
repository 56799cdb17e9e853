"""An array of jobs gives the files of one run, byte for byte."""

import subprocess

import pytest
from command import ROOT, environment

from pipeline.experiment import ClusterSection
from pipeline.prepare import engines
from pipeline.prepare.array import Array, ArrayRun
from pipeline.prepare.job import make_job
from pipeline.prepare.part import main
from pipeline.workspace import Workspace


class HereArray(Array):
    """Runs jobs in this process, the last one first."""

    def run(self, command, count, logs, poll):
        for index in reversed(range(count)):
            self.run_one([*command, str(index)], logs / f"array-{index}.log")
            poll()

    def run_one(self, command, log):
        assert command[1:4] == ["-P", "-m", "pipeline.prepare.part"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["part", *command[4:]])
            main()


class OneProcessArray(HereArray):
    """Runs the jobs of one phase as processes, as an array would."""

    def run_one(self, command, log):
        if "encode" not in command:
            return super().run_one(command, log)
        with log.open("wb") as file:
            subprocess.run(command, stdout=file, stderr=file, cwd=ROOT, env=environment())


def files(workspace):
    return {path.name: path.read_bytes() for path in workspace.data.iterdir()}


@pytest.fixture
def experiment_with(make_experiment, make_pairs, write_tsv):
    """An experiment of several blocks, with duplicates, drops and held-out pairs."""
    pairs = make_pairs(4500)
    broken = [("", "vide"), pairs[0], pairs[4300]]
    train = [
        {"format": "tsv", "path": write_tsv(pairs + broken)},
        {"format": "tsv", "path": write_tsv(make_pairs(50, seed=2), "other.tsv")},
    ]

    def make(**cluster):
        return make_experiment(
            train,
            cluster=cluster,
            data={"shards": 3, "hold_out": {"valid": 0.1, "test": 0.1}},
            vocabulary={"source_size": 60, "target_size": 60, "sample_sentences": 500},
        )

    return make


@pytest.mark.parametrize(("kind", "jobs"), [(HereArray, 4), (OneProcessArray, 2)])
def test_the_files_are_those_of_one_run(experiment_with, run, monkeypatch, kind, jobs):
    """Also with more jobs than blocks."""
    alone, manifest, _ = run(experiment_with(), "alone")
    assert set(manifest["splits"]["train"]["dropped"]) == {"duplicate", "empty"}
    monkeypatch.setattr(engines, "SlurmArray", lambda options: kind())
    experiment = experiment_with(runner="slurm", array_jobs=jobs)
    together, _, printed = run(experiment, "together")
    assert files(together) == files(alone)
    assert "writing records: done" in printed


def test_a_job_that_fails_is_told_with_what_it_wrote(experiment_with, tmp_path):
    class Failing(Array):
        def run(self, command, count, logs, poll):
            (logs / "array-0.log").write_text("no space left")

    job = make_job(experiment_with(), Workspace(tmp_path / "run"), tmp_path / "out")
    run = ArrayRun(ClusterSection(runner="slurm", array_jobs=3), Failing())
    with pytest.raises(RuntimeError, match="3 of 3 jobs of the phase sample(.|\n)*no space left"):
        run.run(job, [], lambda: None)
