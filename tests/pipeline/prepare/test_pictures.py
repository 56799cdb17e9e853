"""Picture files of every kind, whole and broken, and captions in COCO's JSON."""

import io
import json
import zlib

import numpy as np
import pytest
from PIL import Image

from models.errors import UserError
from pipeline.experiment import CorpusFile
from pipeline.prepare.coco import CocoReader
from pipeline.prepare.pictures import picture_path, read_picture
from pipeline.prepare.reading import Block, ByteRange
from pipeline.prepare.reasons import BROKEN_PICTURE, HUGE_PICTURE, NO_PICTURE, Dropped

LIMIT = 50_000_000


def saved(path, picture, **options):
    picture.save(path, **options)
    return str(path)


@pytest.mark.parametrize(
    ("mode", "colour", "kind"),
    [
        ("L", 200, "PNG"),
        ("1", 1, "PNG"),
        ("RGB", (200, 200, 200), "BMP"),
        ("CMYK", (0, 0, 0, 55), "JPEG"),
        ("P", 3, "GIF"),
        ("LA", (200, 255), "PNG"),
        ("RGBA", (200, 200, 200, 255), "PNG"),
        ("I;16", 200 << 8, "PNG"),
    ],
)
def test_every_mode_becomes_rgb(tmp_path, mode, colour, kind):
    picture = Image.new(mode, (3, 2), colour)
    wanted = 255 if mode == "1" else 200
    if mode == "P":
        picture.putpalette([0] * 9 + [200] * 3)
    pixels = read_picture(saved(tmp_path / "picture", picture, format=kind), LIMIT)
    assert pixels.shape == (2, 3, 3) and pixels.dtype == np.uint8
    np.testing.assert_allclose(pixels, wanted, atol=2)


def test_what_is_transparent_lies_on_white(tmp_path):
    picture = Image.new("RGBA", (1, 1), (0, 0, 0, 0))
    assert read_picture(saved(tmp_path / "clear.png", picture), LIMIT).tolist() == [[[255] * 3]]


def test_a_photo_is_turned_as_its_exif_says(tmp_path):
    picture = Image.new("RGB", (8, 4))
    exif = picture.getexif()
    exif[0x0112] = 6  # turn by a quarter
    path = saved(tmp_path / "turned.jpg", picture, exif=exif)
    assert read_picture(path, LIMIT).shape == (8, 4, 3)


def test_twenty_megapixels_are_read_and_more_than_the_limit_is_not(tmp_path):
    path = saved(tmp_path / "large.png", Image.new("L", (5_000, 4_000)))
    assert read_picture(path, 20_000_000).shape == (4_000, 5_000, 3)
    with pytest.raises(Dropped, match=HUGE_PICTURE):
        read_picture(path, 19_999_999)


def test_a_bomb_is_known_by_its_header(tmp_path):
    content = io.BytesIO()
    Image.new("L", (1, 1)).save(content, "PNG")
    bomb = bytearray(content.getvalue())
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2  # what the header tells
    bomb[29:33] = zlib.crc32(bytes(bomb[12:29])).to_bytes(4, "big")
    path = tmp_path / "bomb.png"
    path.write_bytes(bomb)
    with pytest.raises(Dropped, match=HUGE_PICTURE):
        read_picture(str(path), LIMIT)


def test_what_is_no_whole_picture_is_told(tmp_path):
    whole = tmp_path / "whole.jpg"
    noise = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(whole)
    content = whole.read_bytes()
    for broken in (b"", b"not a picture", content[: len(content) // 2], content[:30]):
        path = tmp_path / "broken.jpg"
        path.write_bytes(broken)
        with pytest.raises(Dropped, match=BROKEN_PICTURE):
            read_picture(str(path), LIMIT)
    for path in (tmp_path / "nowhere.jpg", tmp_path):
        with pytest.raises(Dropped, match=NO_PICTURE):
            read_picture(str(path), LIMIT)


def test_pictures_lie_in_their_folder_or_beside_the_captions():
    beside = CorpusFile(format="coco", path="data/captions.json")
    assert picture_path(beside, b"a/b.jpg") == "data/a/b.jpg"
    apart = CorpusFile(format="coco", path="data/captions.json", images="photos")
    assert picture_path(apart, "é.jpg".encode()) == "photos/é.jpg"


def read_coco(tmp_path, document):
    path = tmp_path / "captions.json"
    text = document if isinstance(document, bytes) else json.dumps(document, indent=1).encode()
    path.write_bytes(text)
    reader = CocoReader(CorpusFile(format="coco", path=str(path)))
    rows = list(reader.rows(Block(0, 1, (ByteRange(str(path), 0, len(text)),))))
    return reader, rows


def test_both_forms_of_captions_are_read(tmp_path):
    coco = {
        "images": [{"id": 7, "file_name": "a.jpg"}, {"id": 8, "file_name": "b.jpg"}],
        "annotations": [
            {"image_id": 8, "caption": "A  dog.\n"},
            {"image_id": 7, "caption": "a cat"},
            {"image_id": 9, "caption": "of nothing"},
            {"image_id": 7, "caption": None},
        ],
    }
    reader, rows = read_coco(tmp_path, coco)
    assert [number for number, _ in rows] == [1, 2, 3, 4]
    assert [reader.sides(row) for _, row in rows[:2]] == [
        (b"b.jpg", b"A dog."),
        (b"a.jpg", b"a cat"),
    ]
    for (_, row), reason in zip(rows[2:], ("missing_key", "not_a_string"), strict=True):
        with pytest.raises(Dropped, match=reason):
            reader.sides(row)
    reader, rows = read_coco(tmp_path, [{"file": "a.jpg", "captions": ["one", "two"]}])
    assert [reader.sides(row)[1] for _, row in rows] == [b"one", b"two"]


@pytest.mark.parametrize("document", [b"{", b"\xff", {"images": []}, [{"file": "a"}], 7])
def test_another_document_is_refused_by_name(tmp_path, document):
    with pytest.raises(UserError, match="captions.json: not captions as COCO has them"):
        read_coco(tmp_path, document)
