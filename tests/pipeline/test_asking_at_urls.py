"""What is asked, and of which model: both may lie at URLs."""

import pytest

from models.errors import UserError
from pipeline.caption import read_file
from pipeline.lips import frames_of
from pipeline.places import place
from pipeline.translate import asked_model
from tests.colour_clips import content_of, write_clip


def asked(model):
    return asked_model("", False, model, "translation", 1, 1.0)


def test_the_newest_whole_version_at_a_url_answers(store, tmp_path, monkeypatch):
    from tests.serving.server import tiny_models

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    base = place(store) / "translation"
    for number, mark in ((2, "two "), (3, "three ")):
        saved = tiny_models.save(tmp_path / str(number), mark)
        for path in saved.rglob("*"):
            if path.is_file():
                name = path.relative_to(saved).as_posix()
                (base / str(number) / name).write_bytes(path.read_bytes())
    (base / "4" / "variables" / "variables.index").write_bytes(b"the others are on their way")
    for folder, expected in ((base, "three HELLO"), (base / "2", "two HELLO")):
        with asked(folder) as model:
            assert model.translate(["hello"]) == [expected]
        # TensorFlow leaves files of its own there, but no copy of a version is left.
        assert not list(temporary.rglob("saved_model.pb"))
    with pytest.raises(UserError, match=f"{store}/nowhere: no exported version yet"):
        with asked(place(store) / "nowhere"):
            pass


def test_pictures_to_caption_lie_at_urls(store):
    path = place(store) / "r.png"
    path.write_bytes(content_of("r"))
    assert read_file(path) == (content_of("r"), None)
    assert (
        read_file(place(store) / "b.png")[1] == "cannot be read (No such file or directory); "
        "name a picture"
    )


def test_clips_to_read_lie_at_urls(store, tmp_path):
    write_clip(tmp_path / "rb", "rb")
    for name in ("0.png", "1.png"):
        (place(store) / "rb" / name).write_bytes((tmp_path / "rb" / name).read_bytes())
    assert frames_of(place(store) / "rb", 5) == [content_of("r"), content_of("b")]
    assert frames_of(place(store) / "rb", 1) == [content_of("r")]
