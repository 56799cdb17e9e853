"""The whole road of captioning, on pictures of plain colours."""

import base64
import io
import json

import httpx
import numpy as np
import pytest
import rich.console
from PIL import Image

from models.errors import UserError
from pipeline.batches import read_pairs
from pipeline.caption import caption_files
from pipeline.captioner import pictures_of
from pipeline.experiment import Experiment
from pipeline.prepare.manifest import load_manifest
from pipeline.stages import run_stages
from pipeline.translate import LocalModel
from pipeline.workspace import Workspace
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions

COLOURS = ("red", "green", "blue", "white")


def content_of(colour, kind="PNG", size=(40, 30)):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, kind)
    return file.getvalue()


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    """Experiment and workspace after all stages, and what was printed."""
    folder = tmp_path_factory.mktemp("captioning")
    for colour in COLOURS:
        (folder / f"{colour}.png").write_bytes(content_of(colour))
    (folder / "torn.png").write_bytes(content_of("red")[:50])
    captions = [
        {"file": f"{colour}.png", "captions": [f"a {colour} wall", f"it is {colour}"]}
        for colour in (*COLOURS, "torn")
    ]
    corpus = folder / "captions.json"
    corpus.write_text(json.dumps(captions))
    inputs = [{"format": "coco", "path": str(corpus)}]
    experiment = Experiment.model_validate(
        {
            "name": "colours",
            "data": {
                "train": inputs,
                "valid": inputs,
                "test": inputs,
                "shards": 2,
                "pictures": {"weights": None},
            },
            "vocabulary": {"algorithm": "word"},
            "model": {
                "task": "captioning",
                "embedding_size": 8,
                "decoder": {"units": 8},
                "attention": {"score": "additive"},
            },
            "train": {"max_steps": 2, "batch_tokens": 40, "validate_every": 1, "samples": 2},
            "search": {"beam_size": 2, "max_length_extra": 5},
            "export": {"model_name": "captioning", "warmup_requests": 1},
            "cluster": {"running_mode": "in_memory"},
        }
    )
    workspace = Workspace(folder / "run")
    printed = io.StringIO()
    console = rich.console.Console(file=printed, width=120)
    run_stages(experiment, workspace, console)
    return experiment, workspace, workspace.export / "captioning", printed.getvalue()


def test_records_hold_features_and_broken_pictures_are_dropped(road):
    experiment, workspace, _, printed = road
    pairs = read_pairs(workspace.shards("train"))
    assert len(pairs.targets) == 8 == len(pairs.pictures)
    pictures = pictures_of(pairs)
    assert sorted(each.name for each in pictures) == sorted(f"{each}.png" for each in COLOURS)
    for picture in pictures:
        colour = picture.name.removesuffix(".png")
        assert sorted(picture.references) == [f"a {colour} wall", f"it is {colour}"]
        assert picture.features.shape == (7, 7, 1280) and np.isfinite(picture.features).all()
    assert load_manifest(workspace, experiment)["sides"] == {"target": "target"}
    assert "broken_picture" in printed
    # A picture's captions lie in one shard.
    for shard in workspace.shards("train"):
        assert all(len(each.references) == 2 for each in pictures_of(read_pairs([shard])))


def test_scores_are_of_all_references(road):
    _, workspace, _, printed = road
    scores = json.loads((workspace.scores / "test.json").read_text())
    assert scores["pictures"] == 4 and len(scores["bleu"]) == 4
    references = (workspace.scores / "test.reference.txt").read_text().splitlines()
    assert sorted(len(line.split("\t")) for line in references) == [2] * 4
    assert "CIDEr-D" in printed


def test_a_broken_picture_fails_alone(road):
    model = LocalModel(road[2])
    jpeg = content_of("red", "JPEG")
    files = [
        content_of("red"), b"", b"no picture", jpeg[: len(jpeg) // 2], content_of("red", "GIF"),
        content_of("red", "BMP", (1, 1)), content_of("red")[:20], content_of("red"),
    ]  # fmt: skip
    rows = model.predict({"image_bytes": files}, "serving_default")
    assert [row["error_code"] for row in rows] == [0, 1, 1, 1, 0, 0, 1, 0]
    for row in rows:
        assert row["error_code"] == (row["caption"] == "") or row["error_code"] == 0
        assert row["score"] < 0 or row["error_code"]
    (alone,) = model.predict({"image_bytes": files[:1]}, "serving_default")
    assert alone["caption"] == rows[0]["caption"] == rows[-1]["caption"]
    assert alone["score"] == pytest.approx(rows[0]["score"], abs=1e-4)
    (nothing,) = model.predict({"image_bytes": [b"no picture"]}, "serving_default")
    assert nothing == {"caption": "", "score": 0.0, "error_code": 1}


def test_a_map_is_told_for_each_piece(road):
    model = LocalModel(road[2])
    rows = model.predict({"image_bytes": [b"none", content_of("blue")]}, "align")
    assert rows[0]["error_code"] == 1 and not np.any(rows[0]["alignment"])
    maps = np.array(rows[1]["alignment"])  # [T, 7, 7]
    pieces = rows[1]["target_tokens"]
    assert maps.shape == (len(pieces), 7, 7)
    np.testing.assert_allclose(maps.sum((1, 2)), [bool(each) for each in pieces], atol=1e-5)


def test_files_are_captioned_and_broken_ones_named(road, tmp_path, capfdbinary):
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    good.write_bytes(content_of("green"))
    bad.write_bytes(b"none")
    with pytest.raises(UserError, match="bad.png: no picture that the model can read"):
        caption_files([bad, good], "", False, road[2], "captioning", 8, 10.0)
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.split("\t")[0] for line in lines] == [str(good)]
    for path, told in ((tmp_path, "a folder"), (tmp_path / "nowhere", "cannot be read")):
        with pytest.raises(UserError, match=told):
            caption_files([path], "", False, road[2], "captioning", 8, 10.0)


def test_a_server_answers_like_the_model(road):
    model = LocalModel(road[2])
    files = [content_of("blue"), b"none", content_of("white", "JPEG")]
    inputs = {"image_bytes": files}
    wanted = model.predict(inputs, "serving_default")
    maps = model.predict(inputs, "align")
    with Server(ServerOptions("captioning", road[2], port=0, rest_api_port=0)) as server:
        with Client(server.addresses.grpc, model_name="captioning") as client:
            found = client.predict(inputs, "serving_default")
            drawn = client.predict(inputs, "align")
        instances = [{"b64": base64.b64encode(each).decode()} for each in files]
        answer = httpx.post(
            f"http://{server.addresses.rest}/v1/models/captioning:predict",
            json={"instances": instances},
            timeout=60,
        )
    assert answer.status_code == 200, answer.text
    for rows in (found, answer.json()["predictions"]):
        for row, each in zip(rows, wanted, strict=True):
            assert (row["caption"], row["error_code"]) == (each["caption"], each["error_code"])
            assert row["score"] == pytest.approx(each["score"], abs=1e-4)
    for row, each in zip(drawn, maps, strict=True):
        np.testing.assert_allclose(row["alignment"], each["alignment"], atol=1e-5)
