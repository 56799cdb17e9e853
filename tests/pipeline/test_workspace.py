"""Publishing whole, fingerprints, and one process a stage."""

import os
import signal
import subprocess
import sys
import time

import pytest
from command import ROOT, environment

from models.errors import UserError
from pipeline.workspace import (
    Workspace,
    file_fingerprint,
    fingerprint,
    make_folder,
    published_folder,
    read_json,
    write_json,
    write_text,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_published_folder_appears_whole(tmp_path):
    destination = tmp_path / "deep" / "data"
    with published_folder(destination) as folder:
        (folder / "a").write_text("new")
        assert not destination.exists()
    assert (destination / "a").read_text() == "new"
    assert names(destination.parent) == ["data"]


def test_published_folder_replaces_the_old_one(tmp_path):
    for text in ("old", "new"):
        with published_folder(tmp_path / "data") as folder:
            (folder / text).write_text(text)
    assert names(tmp_path / "data") == ["new"]


def test_failure_leaves_the_old_one(tmp_path):
    with published_folder(tmp_path / "data") as folder:
        (folder / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt), published_folder(tmp_path / "data") as folder:
        (folder / "b").write_text("new")
        raise KeyboardInterrupt
    assert names(tmp_path) == ["data"]
    assert names(tmp_path / "data") == ["a"]


def test_leftovers_of_a_killed_process_are_cleared(tmp_path):
    (tmp_path / ".data.partial").mkdir()
    (tmp_path / ".data.partial" / "torn").write_text("x")
    with published_folder(tmp_path / "data") as folder:
        assert names(folder) == []
    assert names(tmp_path) == ["data"]


def test_killed_between_the_two_renames_the_old_one_comes_back(tmp_path):
    (tmp_path / ".data.retired").mkdir()
    (tmp_path / ".data.retired" / "a").write_text("old")
    with pytest.raises(RuntimeError), published_folder(tmp_path / "data"):
        assert (tmp_path / "data" / "a").read_text() == "old"
        raise RuntimeError
    assert (tmp_path / "data" / "a").read_text() == "old"


def test_text_is_written_whole_and_with_bare_newlines(tmp_path):
    write_text(tmp_path / "sub" / "a.txt", "x\ny\u2028é\n")
    assert (tmp_path / "sub" / "a.txt").read_bytes() == "x\ny\u2028é\n".encode()
    assert names(tmp_path / "sub") == ["a.txt"]


def test_json_round_trip_and_its_mistakes(tmp_path):
    write_json(tmp_path / "a.json", {"b": [1, "ü"]})
    assert read_json(tmp_path / "a.json", "x") == {"b": [1, "ü"]}
    with pytest.raises(UserError, match="no such file. Do this"):
        read_json(tmp_path / "none.json", "Do this")
    (tmp_path / "torn.json").write_text('{"b": [1')
    with pytest.raises(UserError, match="not valid JSON .* Do this"):
        read_json(tmp_path / "torn.json", "Do this")


def test_fingerprints(tmp_path):
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    (tmp_path / "b").write_bytes(b"x" * 2_999_999 + b"y")
    assert file_fingerprint(tmp_path / "a") != file_fingerprint(tmp_path / "b")


def test_shards_are_named_and_found_in_order(tmp_path):
    workspace = Workspace(tmp_path)
    workspace.data.mkdir()
    paths = [workspace.shard("train", index, 12) for index in range(12)]
    for path in reversed(paths):
        path.touch()
    workspace.shard("valid", 0, 1, "gzip").touch()
    assert paths[3].name == "train-00003-of-00012.tfrecord"
    assert workspace.shards("train") == paths
    assert [path.name for path in workspace.shards("valid")] == ["valid-00000-of-00001.tfrecord.gz"]
    assert workspace.shards("test") == []


CLAIM = """
import pathlib, sys, time
from pipeline.workspace import Workspace
with Workspace(pathlib.Path(sys.argv[1])).alone("train"):
    print("claimed", flush=True)
    time.sleep(60)
"""


def test_a_stage_is_claimed_until_its_process_ends(tmp_path):
    workspace = Workspace(tmp_path / "run")
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(workspace.root)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    )
    assert process.stdout.readline() == b"claimed\n"
    with pytest.raises(UserError, match="another process is running `seqloom train`"):
        with workspace.alone("train"):
            pass
    with workspace.alone("export"):
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with workspace.alone("train"):
                return
        except UserError:
            time.sleep(0.05)
    raise AssertionError("the claim outlived its process")


def test_a_folder_that_cannot_be_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(UserError, match="cannot be made a folder .*the key workspace"):
            make_folder(place)
    with pytest.raises(UserError, match="cannot be made a folder"):
        with Workspace(tmp_path / "file").alone("train"):
            pass
    monkeypatch.setattr(os, "access", lambda *_: False)  # The superuser may write anywhere.
    with pytest.raises(UserError, match="cannot be written in"):
        make_folder(tmp_path)


def test_json_below_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be read .*do this"):
        read_json(tmp_path / "file" / "manifest.json", "do this")


def test_json_that_is_no_object_is_told(tmp_path):
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(UserError, match="holds no JSON object. do this"):
        read_json(tmp_path / "manifest.json", "do this")
