"""The whole road of captioning, on pictures of plain colours."""

import base64
import io
import json
import os
import zlib

import httpx
import keras
import numpy as np
import pytest
import rich.console
import tensorflow as tf
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from models.errors import UserError
from models.vision.problems import BROKEN, EMPTY, TOO_LARGE, UNKNOWN_KIND
from pipeline.assembly import search_options
from pipeline.batches import read_pairs
from pipeline.best_model import load_best
from pipeline.caption import caption_files
from pipeline.captioner import pictures_of
from pipeline.evaluate import evaluate
from pipeline.experiment import Experiment
from pipeline.experiment_file import record_experiment
from pipeline.export import export
from pipeline.prepare.manifest import load_manifest
from pipeline.prepare.run import prepare
from pipeline.stages import run_stages
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import Checkpoints, Progress, restore_best
from pipeline.translate import LocalModel
from pipeline.workspace import Workspace
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions
from tests.models.examples import randomize

COLOURS = ("red", "green", "blue", "white")


def content_of(colour, kind="PNG", size=(40, 30)):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, kind)
    return file.getvalue()


def bomb():
    """A PNG whose header alone tells of 60,000 times 60,000 pixels."""
    content = bytearray(content_of("black"))
    content[16:24] = (60_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    return bytes(content)


def write_corpus(folder):
    """Pictures of plain colours with two captions each, a torn one, and the input."""
    for colour in COLOURS:
        (folder / f"{colour}.png").write_bytes(content_of(colour))
    (folder / "torn.png").write_bytes(content_of("red")[:50])
    captions = [
        {"file": f"{colour}.png", "captions": [f"a {colour} wall", f"it is {colour}"]}
        for colour in (*COLOURS, "torn")
    ]
    corpus = folder / "captions.json"
    corpus.write_text(json.dumps(captions))
    return [{"format": "coco", "path": str(corpus)}]


def make_experiment(inputs, **pictures):
    return Experiment.model_validate(
        {
            "name": "colours",
            "data": {
                "train": inputs,
                "valid": inputs,
                "test": inputs,
                "shards": 2,
                "pictures": {"weights": None, **pictures},
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


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    """Experiment and workspace after all stages, and what was printed."""
    folder = tmp_path_factory.mktemp("captioning")
    experiment = make_experiment(write_corpus(folder))
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
        features = picture.stored.read("features")
        assert features.shape == (7, 7, 1280) and np.isfinite(features).all()
    manifest = load_manifest(workspace, experiment)
    assert manifest["sides"] == {"target": "target"}
    assert "broken_picture" in printed and "torn.png" in printed
    told = {"broken_picture": {"pictures": 1, "first": ["torn.png"]}}
    assert [each["pictures"] for each in manifest["inputs"]] == [{"read": 5, "dropped": told}] * 3
    # A row a picture, not a caption.
    rows = [len(np.load(path)) for path in workspace.data.glob("train-*.features.npy")]
    assert sum(rows) == 4
    assert sum(each["pictures"] for each in manifest["splits"]["train"]["picture_files"]) == 4
    assert not list(workspace.data.glob("t*.pixels.npy"))
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


def test_tensorboard_shows_where_words_looked(road):
    events = EventAccumulator(str(road[1].logs))
    events.Reload()
    tags = {tag for tag in events.Tags()["tensors"] if tag.startswith("attention/")}
    assert tags == {"attention/1", "attention/2"}  # train.samples
    assert [each.step for each in events.Tensors("attention/1")] == [1, 2]


def test_a_broken_picture_fails_alone(road):
    model = LocalModel(road[2])
    jpeg = content_of("red", "JPEG")
    files = [
        content_of("red"), b"", b"no picture", jpeg[: len(jpeg) // 2], content_of("red", "GIF"),
        content_of("red", "BMP", (1, 1)), content_of("red")[:20], content_of("red"),
        bomb(),
    ]  # fmt: skip
    rows = model.predict({"image_bytes": files}, "serving_default")
    wanted = [0, EMPTY, UNKNOWN_KIND, BROKEN, 0, 0, BROKEN, 0, TOO_LARGE]
    assert [row["error_code"] for row in rows] == wanted
    for row in rows:
        assert not row["error_code"] or row["caption"] == ""
        assert row["score"] < 0 or row["error_code"]
    (alone,) = model.predict({"image_bytes": files[:1]}, "serving_default")
    assert alone["caption"] == rows[0]["caption"] == rows[7]["caption"]
    assert alone["score"] == pytest.approx(rows[0]["score"], abs=1e-4)
    (nothing,) = model.predict({"image_bytes": [b"no picture"]}, "serving_default")
    assert nothing == {"caption": "", "score": 0.0, "error_code": UNKNOWN_KIND}
    none = model.predict({"image_bytes": [b"", bomb()]}, "serving_default")
    assert [row["error_code"] for row in none] == [EMPTY, TOO_LARGE]


def test_a_map_is_told_for_each_piece(road):
    model = LocalModel(road[2])
    rows = model.predict({"image_bytes": [b"none", content_of("blue")]}, "align")
    assert rows[0]["error_code"] == UNKNOWN_KIND and not np.any(rows[0]["alignment"])
    maps = np.array(rows[1]["alignment"])  # [T, 7, 7]
    pieces = rows[1]["target_tokens"]
    assert maps.shape == (len(pieces), 7, 7)
    np.testing.assert_allclose(maps.sum((1, 2)), [bool(each) for each in pieces], atol=1e-5)


def test_files_are_captioned_and_each_broken_one_is_told(road, tmp_path, capfdbinary):
    jpeg = content_of("red", "JPEG", (200, 100))
    contents = {
        "bad.png": b"none",
        "good.png": content_of("green"),
        "empty.jpg": b"",
        "torn.jpg": jpeg[: len(jpeg) // 2],
        "bomb.png": bomb(),
        "whole.jpg": jpeg,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    paths = [tmp_path / name for name in (*contents, "folder", "nowhere")]
    with pytest.raises(UserError) as caught:
        caption_files(paths, "", False, road[2], "captioning", 3, 10.0)
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.split("\t")[0] for line in lines] == [
        str(tmp_path / name) for name in ("good.png", "whole.jpg")
    ]
    told = [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).splitlines()]
    for line, start in zip(
        told,
        (
            "bad.png: not a picture that the model can read",
            "empty.jpg: an empty file",
            "torn.jpg: a picture that is torn",
            "bomb.png: a picture of more pixels",
            "folder: a folder, where a picture was expected",
            "nowhere: cannot be read (No such file",
        ),
        strict=True,
    ):
        assert line.startswith(start)


def test_where_each_word_looked_is_saved_beside_the_caption(road, tmp_path, capfdbinary):
    good, bad = tmp_path / "good.jpg", tmp_path / "bad.png"
    good.write_bytes(content_of("green", "JPEG"))
    bad.write_bytes(b"none")
    folder = tmp_path / "maps"
    with pytest.raises(UserError, match="bad.png: not a picture"):
        caption_files([bad, good], "", False, road[2], "captioning", 8, 10.0, folder)
    assert capfdbinary.readouterr().out.decode().startswith(f"{good}\t")
    (drawn,) = folder.iterdir()
    assert drawn.name == "good.jpg.attention.png"
    with Image.open(drawn) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)  # [H, W, 3]
    green = (pixels[..., 1] > 100) & (pixels[..., 0] < 30) & (pixels[..., 2] < 30)
    assert green.sum() > 5_000  # The picture itself; under the maps it is grey.
    other = tmp_path / "other" / "good.jpg"
    with pytest.raises(UserError, match="several files are called good.jpg"):
        caption_files([good, other], "", False, road[2], "captioning", 8, 10.0, folder)
    with pytest.raises(UserError, match="cannot be made a folder"):
        caption_files([good], "", False, road[2], "captioning", 8, 10.0, good)


def test_a_server_answers_like_the_model(road):
    model = LocalModel(road[2])
    torn = content_of("red", "JPEG", (200, 100))[:400]
    files = [content_of("blue"), b"none", b"", torn, bomb(), content_of("white", "JPEG")]
    inputs = {"image_bytes": files}
    wanted = model.predict(inputs, "serving_default")
    codes = [row["error_code"] for row in wanted]
    assert codes == [0, UNKNOWN_KIND, EMPTY, BROKEN, TOO_LARGE, 0]
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


def test_records_of_other_pictures_are_refused(tmp_path):
    experiment = make_experiment(write_corpus(tmp_path))
    workspace = Workspace(tmp_path / "run")
    prepare(experiment, workspace, rich.console.Console(quiet=True))
    first = load_manifest(workspace, experiment)
    picture = tmp_path / "red.png"
    content = picture.read_bytes()
    os.utime(picture)  # Touched, but the same.
    assert load_manifest(workspace, experiment) == first
    picture.write_bytes(content[:-1] + b"?")
    with pytest.raises(UserError, match="of another experiment: pictures changed since"):
        load_manifest(workspace, experiment)
    picture.unlink()  # As on a machine that has only the workspace.
    assert load_manifest(workspace, experiment) == first
    (shard, *_) = workspace.data.glob("train-*.features.npy")
    shard.write_bytes(shard.read_bytes()[:-4])
    with pytest.raises(UserError, match=r"features.npy has \d+ bytes; expected"):
        load_manifest(workspace, experiment)


def test_a_corpus_without_any_whole_picture_names_the_broken_ones(tmp_path):
    inputs = write_corpus(tmp_path)
    for colour in COLOURS:
        (tmp_path / f"{colour}.png").write_bytes(b"")
    with pytest.raises(UserError, match="broken_picture .*: blue.png, green.png, red.png, torn"):
        workspace = Workspace(tmp_path / "run")
        prepare(make_experiment(inputs), workspace, rich.console.Console(quiet=True))


def test_the_network_learns_too_by_one_line(tmp_path):
    experiment = make_experiment(write_corpus(tmp_path), backbone="small", fine_tune=True)
    workspace = Workspace(tmp_path / "run")
    run_stages(experiment, workspace, rich.console.Console(quiet=True))
    stored = pictures_of(read_pairs(workspace.shards("train")))[0].stored
    pixels = stored.read("pixels")  # [S, S, 3] of one colour
    assert pixels.dtype == np.uint8 and pixels.shape == (64, 64, 3)
    assert not pixels.std((0, 1)).any()
    assert not list(workspace.data.glob("*.features.npy"))

    task = make_task(experiment, workspace)
    keras.utils.set_random_seed(experiment.seed)
    model = task.build_model()
    first = [each.numpy() for each in model.pretrained]
    restore_best(workspace, model)
    moved = [np.abs(a - b.numpy()).max() for a, b in zip(first, model.pretrained, strict=True)]
    # Adam's steps are of one size, the learning rate's, whatever the gradient.
    assert 0 < max(moved) < 2.1 * 0.1 * experiment.train.learning_rate

    # What is exported is the network as it has become.
    (found,) = LocalModel(workspace.export / "captioning").predict(
        {"image_bytes": [content_of("blue", size=(64, 64))]}, "serving_default"
    )
    blue = np.zeros([1, 64, 64, 3], np.uint8)
    blue[..., 2] = 255
    alone = model.translate(model.see(blue), search_options(experiment))
    assert float(alone.scores[0, 0]) == pytest.approx(found["score"], abs=1e-4)


@pytest.fixture
def untaught(road, tmp_path):
    """A function that makes a run of the road's data with a model of any weights as its best."""

    def make(name, cell="lstm", together_with=(), **pictures):
        settings = road[0].model_dump()
        settings["model"]["cell"] = cell
        settings["search"]["ensemble"] = [str(each.root) for each in together_with]
        settings["data"]["pictures"].update(pictures)
        experiment = Experiment.model_validate(settings)
        workspace = Workspace(tmp_path / name)
        workspace.root.mkdir()
        workspace.data.symlink_to(road[1].data)
        record_experiment(experiment, workspace)
        model = randomize(make_task(experiment, workspace).build_model(), len(name), 0.3)
        Checkpoints(workspace, model, keras.optimizers.SGD(), Progress(), 1).save_best()
        return experiment, workspace

    return make


def test_captioners_answer_together(untaught, console):
    _, other = untaught("other", "gru")
    experiment, workspace = untaught("run", together_with=[other])
    task = make_task(experiment, workspace)
    model = load_best(task, workspace).model
    assert [each.options["cell"] for each in model.members] == ["lstm", "gru"]
    pictures = pictures_of(read_pairs(workspace.shards("test")))
    features = np.stack([each.stored.read("features") for each in pictures])  # [B, R, C, F]
    found = model.translate(tf.constant(features), search_options(experiment))
    texts = [text.decode() for text in task.vocabularies.target.decode(found.ids[:, 0]).numpy()]
    evaluate(experiment, workspace, console)
    assert (workspace.scores / "test.hypothesis.txt").read_text().splitlines() == texts
    version = export(experiment, workspace, console)
    files = [content_of(each.name.removesuffix(".png")) for each in pictures]
    answers = LocalModel(version.parent).predict({"image_bytes": [*files, b""]}, "align")
    assert [row["caption"] for row in answers] == [*texts, ""]
    weights = answers[0]["alignment"]  # [T, 7, 7]
    np.testing.assert_allclose(np.sum(weights, (1, 2))[: len(texts[0].split())], 1.0, atol=1e-4)


def test_captioners_of_other_features_do_not_answer_together(untaught):
    _, other = untaught("other", max_pixels=10_000)
    _, learner = untaught("learner", backbone="small", fine_tune=True)
    for named, reason in ((other, "reads other features of pictures"), (learner, "fine_tune")):
        experiment, workspace = untaught(f"{named.root.name}-joins", together_with=[named])
        with pytest.raises(UserError, match=reason):
            load_best(make_task(experiment, workspace), workspace)
