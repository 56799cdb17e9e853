"""Pictures and clips at URLs: read, stored, and read again as those of paths."""

import errno
import io
import json
import os
import shutil
import time

import numpy as np
import pytest
import rich.console

from models.errors import UserError
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs, training_batches
from pipeline.captioner import pictures_of
from pipeline.experiment import CorpusFile, Experiment
from pipeline.experiment_file import workspace_of
from pipeline.places import place
from pipeline.prepare import picture_files
from pipeline.prepare.clips import clip_files, inspect_clip, read_clip
from pipeline.prepare.manifest import load_manifest
from pipeline.prepare.picture_files import RowsWriter, forget_copies, open_rows
from pipeline.prepare.pictures import inspect_picture, picture_path
from pipeline.prepare.run import prepare
from tests.colour_clips import content_of, write_clip

NAMES = ("r.png", "b.png", "deep/r [1].jpg", "torn.png")


def write_pictures(folder):
    """Pictures, of which one is torn, and captions of them and of one that is not there."""
    (folder / "pictures" / "deep").mkdir(parents=True, exist_ok=True)
    contents = (content_of("r"), content_of("b"), content_of("r", "JPEG"), content_of("b")[:60])
    for name, content in zip(NAMES, contents, strict=True):
        (folder / "pictures" / name).write_bytes(content)
    captions = [
        {"file": name, "captions": [f"a {name} wall", f"it is {name}"]}
        for name in (*NAMES, "nowhere.png")
    ]
    (folder / "captions.json").write_bytes(json.dumps(captions).encode())


def captioning(folder, root):
    corpus = {"format": "coco", "path": f"{folder}/captions.json", "images": f"{folder}/pictures"}
    return Experiment.model_validate(
        {
            "name": "colours",
            "workspace": str(root),
            "data": {
                "train": [corpus],
                "valid": [corpus],
                "shards": 2,
                "pictures": {"backbone": "tiny", "weights": None, "fine_tune": True},
            },
            "vocabulary": {"algorithm": "word"},
            "model": {"task": "captioning", "embedding_size": 8, "decoder": {"units": 8}},
            "train": {"max_steps": 2, "batch_tokens": 40, "validate_every": 2, "samples": 1},
            "cluster": {"running_mode": "in_memory"},
        }
    )


def silent():
    return rich.console.Console(file=io.StringIO())


@pytest.fixture
def prepared(store, tmp_path):
    """The same pictures here and at a URL, each prepared into a workspace beside them."""
    here, there = tmp_path / "here", place(store)
    made = []
    for folder in (here, there):
        write_pictures(folder)
        experiment = captioning(folder, folder / "run")
        workspace = workspace_of(experiment)
        prepare(experiment, workspace, silent())
        made.append((experiment, workspace))
    return made


def test_records_and_rows_at_a_url_are_those_of_paths(prepared):
    (_, here), (experiment, there) = prepared
    expected = {path.name: path.read_bytes() for path in here.data.iterdir()}
    found = {path.name: path.read_bytes() for path in there.data.iterdir()}
    assert found.keys() == expected.keys() and "valid-00000-of-00001.pixels.npy" in found
    for name in found.keys() - {"manifest.json"}:  # It names the corpus.
        assert found[name] == expected[name], name
    manifest = load_manifest(there, experiment)
    assert manifest["inputs"][0]["pictures"]["dropped"] == {
        "broken_picture": {"pictures": 1, "first": ["torn.png"]},
        "no_picture": {"pictures": 1, "first": ["nowhere.png"]},
    }
    both = [
        {each.name: each.stored.read("pixels") for each in pictures_of(read_pairs([shard]))}
        for workspace in (here, there)
        for shard in workspace.shards("valid")
    ]
    assert both[0].keys() == both[1].keys() == {"r.png", "b.png", "deep/r [1].jpg"}
    for name, pixels in both[0].items():
        np.testing.assert_array_equal(pixels, both[1][name])
    batches = _batches(there)
    assert len(batches) > 1 and batches == _batches(here)


def _batches(workspace):
    """Ids and pictures of an epoch."""
    batches = training_batches(
        workspace.shards("train"),
        BatchOptions(batch_tokens=12, shuffle_pool=4),
        lambda source, target, pixels: ({"pixels": pixels}, target),
        seed=1,
        epoch=0,
        pictures="pixels",
    )
    return [(inputs["pixels"].numpy().tobytes(), ids.numpy().tolist()) for inputs, ids in batches]


def test_a_picture_that_changed_at_a_url_is_noticed_and_looked_for_once(prepared, monkeypatch):
    _, (experiment, workspace) = prepared
    forget_copies()
    from tests.memory_store import MemoryFileSystem

    looks = []
    listed = MemoryFileSystem._list
    monkeypatch.setattr(
        MemoryFileSystem, "_list", lambda self, at: looks.append(at) or listed(self, at)
    )
    load_manifest(workspace, experiment)
    pictures = f"{place(experiment.data.train[0].images)}/"
    assert [look for look in looks if look.startswith(pictures)] == [pictures]
    folder = place(experiment.data.train[0].images)
    (folder / "b.png").unlink()
    load_manifest(workspace, experiment)  # As on a machine that has only the workspace.
    time.sleep(0.01)
    (folder / "b.png").write_bytes(content_of("r").ljust(len(content_of("b")), b"\0"))
    with pytest.raises(UserError, match="of another experiment: pictures changed since"):
        load_manifest(workspace, experiment)


def test_a_store_that_does_not_answer_loses_no_picture(store, monkeypatch):
    from tests.memory_store import BeamIOError, MemoryFileSystem

    folder = place(store)
    write_pictures(folder)
    opened = MemoryFileSystem.open

    def refuse(self, path, *how):
        if path.endswith("b.png"):
            raise BeamIOError("the store is away")
        return opened(self, path, *how)

    monkeypatch.setattr(MemoryFileSystem, "open", refuse)
    experiment = captioning(folder, folder / "run")
    with pytest.raises(UserError, match="pictures/b.png: .*the store is away"):
        prepare(experiment, workspace_of(experiment), silent())
    assert not workspace_of(experiment).manifest.exists()


def test_pictures_are_named_by_their_folder_or_by_a_url_of_their_own(store):
    corpus = CorpusFile(format="tsv", path="gs://bucket/a/captions.tsv")
    assert picture_path(corpus, b"b/c.png") == "gs://bucket/a/b/c.png"
    assert picture_path(corpus, b"s3://other/c.png") == "s3://other/c.png"
    (place(store) / "a*?.png").write_bytes(content_of("r"))
    (place(store) / "other.png").write_bytes(content_of("b"))
    facts = inspect_picture(f"{store}/a*?.png", 10_000)
    assert facts.dropped is None and facts.bytes == len(content_of("r"))
    assert inspect_picture(f"{store}/a*.png", 10_000).dropped == "no_picture"
    assert inspect_picture(f"{store}/a*?.png", 10).dropped == "huge_picture"


def test_clips_at_a_url_are_those_of_paths(store, tmp_path):
    write_clip(tmp_path / "rbr", "rbr")
    (tmp_path / "rbr" / ".hidden").write_bytes(b"no frame")
    names = [path.name for path in (tmp_path / "rbr").iterdir()]
    for name in names:
        (place(store) / "rbr" / name).write_bytes((tmp_path / "rbr" / name).read_bytes())
    assert clip_files(f"{store}/rbr") == [f"{store}/rbr/{number}.png" for number in range(3)]
    for wanted, found in zip(
        read_clip(str(tmp_path / "rbr"), 10_000), read_clip(f"{store}/rbr", 10_000), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    facts = inspect_clip(f"{store}/rbr", 10_000)
    assert facts == inspect_clip(str(tmp_path / "rbr"), 10_000) and facts.frames == 3
    assert inspect_clip(f"{store}/nowhere", 10_000).dropped == "no_clip"


def test_a_video_at_a_url_is_that_of_a_path(store, tmp_path):
    av = pytest.importorskip("av", reason="the extra video is not installed")
    path = tmp_path / "video.mpg"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg1video", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for shade in (20, 120, 220):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), shade, np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    (place(store) / "video.mpg").write_bytes(path.read_bytes())
    frames = list(read_clip(f"{store}/video.mpg", 10_000))
    np.testing.assert_array_equal(frames, list(read_clip(str(path), 10_000)))
    assert len(frames) == 3 and frames[0].mean() < frames[2].mean()
    assert inspect_clip(f"{store}/video.mpg", 10_000) == inspect_clip(str(path), 10_000)


def test_a_copy_of_rows_leaves_no_file_and_wants_room(store, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = place(store) / "a.pixels.npy"
    writer = RowsWriter(path, 3)
    writer.add(np.arange(4).reshape(2, 2))
    writer.add(np.full([1, 2], 7))
    assert writer.close() == [path] and list(place(store).iterdir()) == [path]
    rows = open_rows(path)
    assert rows.tolist() == [[0, 1], [2, 3], [7, 7]] and open_rows(path) is rows
    assert not list(tmp_path.iterdir())
    forget_copies()

    def fill(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(picture_files, "shutil", type(shutil)("shutil"))
    monkeypatch.setattr(picture_files.shutil, "copyfileobj", fill, raising=False)
    with pytest.raises(UserError, match=r"No space left.*TMPDIR"):
        open_rows(path)
    with pytest.raises(UserError, match="nowhere.npy: no pictures can be read"):
        open_rows(place(store) / "nowhere.npy")


def test_clips_at_a_url_are_prepared_there_and_looked_for_once(store, tmp_path, monkeypatch):
    from tests.memory_store import MemoryFileSystem

    here, there = tmp_path / "here", place(store)
    texts = ("rb", "br", "rrb", "bbr")
    for text in texts:
        write_clip(here / "clips" / text, text)
    lines = [json.dumps({"clip": text, "text": text}) for text in (*texts, "nowhere")]
    (here / "clips.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for path in here.rglob("*"):
        if path.is_file():
            (there / path.relative_to(here).as_posix()).write_bytes(path.read_bytes())
    made = []
    for folder in (here, there):
        experiment = lip_reading(folder)
        workspace = workspace_of(experiment)
        prepare(experiment, workspace, silent())
        made.append({path.name: path.read_bytes() for path in workspace.data.iterdir()})
    assert made[0].keys() == made[1].keys() and "pictures.jsonl" in made[1]
    for name in made[0].keys() - {"manifest.json"}:
        assert made[1][name] == made[0][name], name

    looks = []
    listed = MemoryFileSystem._list
    monkeypatch.setattr(
        MemoryFileSystem, "_list", lambda self, at: looks.append(at) or listed(self, at)
    )
    load_manifest(workspace, experiment)
    assert [look for look in looks if "/clips/" in look] == [f"{store}/clips/"]
    time.sleep(0.01)
    frame = there / "clips" / "rb" / "0.png"
    frame.write_bytes(content_of("b").ljust(frame.stat().st_size, b"\0"))
    with pytest.raises(UserError, match="of another experiment: pictures changed since"):
        load_manifest(workspace, experiment)


def lip_reading(folder):
    corpus = {
        "format": "jsonl",
        "path": f"{folder}/clips.jsonl",
        "images": f"{folder}/clips",
        "source_key": "clip",
        "target_key": "text",
    }
    return Experiment.model_validate(
        {
            "name": "colours",
            "workspace": f"{folder}/run",
            "data": {
                "train": [corpus],
                "valid": [corpus],
                "shards": 2,
                "pictures": {"backbone": "tiny", "weights": None, "fine_tune": True},
            },
            "vocabulary": {"algorithm": "character"},
            "model": {"task": "lip_reading", "cell": "gru"},
            "cluster": {"running_mode": "in_memory"},
        }
    )
