"""The stage that writes deployments, with an export made by hand and no measuring."""

import pytest
import rich.console

from models.errors import UserError
from pipeline import deploy as stage
from pipeline.experiment import Experiment
from pipeline.places import place
from pipeline.workspace import Workspace
from serving.deploy.contract import Measured
from serving.server import url_folder
from tests.command import seqloom

CONFIG = "configs/demo.yaml"


@pytest.fixture
def exported(tmp_path, monkeypatch):
    (tmp_path / "export" / "translation" / "3").mkdir(parents=True)
    asked = []

    def measure(version, rows, runs):
        asked.append((version.name, rows, runs))
        return Measured(1 << 20, 3 << 20, 1.0)

    monkeypatch.setattr(stage, "measure", measure)
    return Workspace(tmp_path), asked


def experiment(**options):
    corpus = [{"format": "tsv", "path": "a.tsv"}]
    return Experiment.model_validate({"name": "x", "data": {"train": corpus}, "deploy": options})


def written(workspace, out=None, **options):
    quiet = rich.console.Console(quiet=True)
    return stage.deploy(experiment(**options), workspace, "docker", out, quiet)


def test_the_newest_version_is_measured_and_its_folder_written(exported):
    workspace, asked = exported
    folder = written(workspace, cpus=3, max_batch_size=16)
    assert folder == workspace.root / "deploy" / "docker"
    assert asked == [("3", 16, 3)]
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    configs = {f"config/{name}.config" for name in ("models", "batching", "monitoring")}
    assert names == {"compose.yaml", "README.md"} | configs
    assert [path.name for path in folder.parent.iterdir()] == ["docker"]


def test_a_deployment_replaces_an_earlier_one_and_nothing_else(exported, tmp_path):
    workspace, _ = exported
    out = tmp_path / "out"
    written(workspace, out, max_batch_size=8)
    written(workspace, out, max_batch_size=64)
    assert "value: 64" in (out / "config" / "batching.config").read_text()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds notes.txt, which is not of this deployment"):
        written(workspace, out)
    assert (out / "notes.txt").read_text() == "mine"


def test_a_file_is_no_folder(exported, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="is a file"):
        written(exported[0], tmp_path / "out")


def test_a_version_at_a_url_is_measured_here_and_served_there(
    exported, store, tmp_path, monkeypatch
):
    _, asked = exported
    monkeypatch.chdir(tmp_path)
    base = place(store) / "run" / "export" / "translation"
    for name in ("2/saved_model.pb", "2/variables/a", "11/saved_model.pb", "12/variables/a"):
        (base / name).write_bytes(b"content of " + name.encode())
    workspace = Workspace(place(store) / "run")
    with pytest.raises(UserError, match=f"workspace: {base}: .* read gs://, and no ram://"):
        written(workspace)
    seen = []
    measure = stage.measure
    monkeypatch.setattr(url_folder, "SERVED_SCHEMES", ("ram",))
    monkeypatch.setattr(
        stage,
        "measure",
        lambda version, *given: (
            seen.append((version / "saved_model.pb").read_text()) or measure(version, *given)
        ),
    )
    folder = written(workspace)
    # 12 has not come whole.
    assert asked == [("11", 32, 2)] and seen == ["content of 11/saved_model.pb"]
    assert folder == tmp_path / "runs" / "run" / "deploy" / "docker"
    assert f'base_path: "{base}"' in (folder / "config" / "models.config").read_text()


def test_the_most_servers_are_not_below_the_least(exported):
    with pytest.raises(UserError, match="must not be below the least"):
        written(exported[0], replicas=4, max_replicas=3)


def test_mistakes_at_the_command_line(tmp_path):
    here = ("--set", f"workspace={tmp_path}")
    outcome = seqloom("deploy", CONFIG, "--target", "docker", *here, status=2)
    assert b"no exported version yet" in outcome.stderr
    outcome = seqloom("deploy", CONFIG, "--target", "swarm", *here, status=2)
    assert b"expected one of docker, kubernetes" in outcome.stderr
