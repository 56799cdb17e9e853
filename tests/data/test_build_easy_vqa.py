"""The records of easy-VQA, from a package of two pictures and from the real one."""

import importlib.util
import json

import build_easy_vqa
import pytest
from build_easy_vqa import main, package_folder, questions
from PIL import Image


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "package"
    for split in ("train", "test"):
        (folder / split / "images").mkdir(parents=True)
        Image.new("RGB", (64, 64)).save(folder / split / "images" / "7.png")
        rows = [[f"what is in {split}?", "circle", 7], ["is it “é”?", "no", 7]]
        (folder / split / "questions.json").write_text(json.dumps(rows))
    monkeypatch.setattr(build_easy_vqa, "package_folder", lambda: folder)
    return folder


def test_a_record_names_its_picture(package, tmp_path):
    out = tmp_path / "made" / "here"
    main(out)
    for split in ("train", "test"):
        lines = (out / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        assert records == [
            {"image": f"{split}/7.png", "question": f"what is in {split}?", "answer": "circle"},
            {"image": f"{split}/7.png", "question": "is it “é”?", "answer": "no"},
        ]
        assert Image.open(out / "images" / records[0]["image"]).size == (64, 64)
    main(out)  # what is there already is written again


@pytest.mark.skipif(
    importlib.util.find_spec("easy_vqa") is None, reason="the extra easy-vqa is not installed"
)
def test_the_real_package_has_what_is_told_of_it():
    folder = package_folder()
    found = {split: questions(folder, split) for split in ("train", "test")}
    assert {split: len(rows) for split, rows in found.items()} == {"train": 38_575, "test": 9_673}
    assert len({row["answer"] for row in found["train"]}) == 13
    for split, rows in found.items():
        assert (folder / split / "images" / rows[0]["image"].split("/")[1]).is_file()
