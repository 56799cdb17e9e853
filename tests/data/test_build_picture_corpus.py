"""The corpus of the demo's photos: every photo has its captions and licence, and is mirrored."""

import importlib.util
import json

import numpy as np
import pytest
from command import ROOT
from PIL import Image

from pipeline.experiment_file import load_experiment

SCRIPT = ROOT / "data" / "build_picture_corpus.py"
LISTED = json.loads((ROOT / "data" / "picture_captions.json").read_text())


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("build_picture_corpus", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_photo_has_a_licence_and_captions_of_its_own():
    assert 10 <= len(LISTED) <= 20
    captions = [caption for each in LISTED for caption in each["captions"]]
    assert all(each["licence"] and len(each["captions"]) == 4 for each in LISTED)
    assert len(set(captions)) == len(captions)
    assert all(caption == caption.lower().strip(" .") for caption in captions)


def test_photos_are_copied_and_mirrored(script, tmp_path, capsys):
    # Of scikit-learn, which is always there.
    some = [each for each in LISTED if each["package"] == "sklearn"]
    (tmp_path / "some.json").write_text(json.dumps(some))
    out = tmp_path / "corpus"
    for _ in range(2):  # A second time replaces the first.
        script.main(out, tmp_path / "some.json")
    assert f"2 photos with 8 captions in {out}" in capsys.readouterr().out
    rows = json.loads((out / "captions.json").read_text())
    assert [row["file"] for row in rows] == ["china.jpg", "flower.jpg"]
    assert [row["captions"] for row in rows] == [each["captions"] for each in some]
    photo, mirrored = (
        np.asarray(Image.open(out / kind / "flower.jpg"), float) for kind in ("photos", "mirrored")
    )
    assert np.abs(photo[:, ::-1] - mirrored).mean() < 4 < np.abs(photo - mirrored).mean()
    assert {path.name for path in out.iterdir()} == {"photos", "mirrored", "captions.json"}


def test_what_is_not_installed_is_named(script, tmp_path):
    missing = [{"package": "no_such_package", "file": "a.png", "captions": ["a"]}]
    (tmp_path / "missing.json").write_text(json.dumps(missing))
    with pytest.raises(SystemExit, match=r"no_such_package: not installed; run: pip install"):
        script.main(tmp_path / "corpus", tmp_path / "missing.json")
    assert not (tmp_path / "corpus").exists()


def test_the_experiment_reads_what_the_script_writes():
    experiment = load_experiment(ROOT / "configs" / "pictures.yaml", [])
    assert {corpus.path for corpus in experiment.data.inputs} == {
        "runs/pictures-corpus/captions.json"
    }
