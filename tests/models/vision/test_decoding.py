"""Pictures decoded in a graph are those that Pillow reads, and what is none is told."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from models.vision.contract import crop_square
from models.vision.decoding import decode_pictures
from models.vision.orientation import orientation
from models.vision.problems import BROKEN, EMPTY, NO_PROBLEM, TOO_LARGE, UNKNOWN_KIND
from pipeline.prepare.pictures import read_picture

SIZE, LIMIT = 16, 10_000
ORIENTATION = 0x0112


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def decode(files):
    return decode_pictures(files, SIZE, LIMIT)


tag_of = tf.function(orientation, input_signature=[tf.TensorSpec([], tf.string)])


def photo(width=30, height=20):
    """Smooth colours, which JPEG keeps nearly as they are."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, 255 - x], -1).astype(np.uint8))


def saved(picture, kind, **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def exif(tag, byte_order=b"II", entries_before=2):
    """An EXIF part by hand: other entries, then the orientation."""
    order = "<" if byte_order == b"II" else ">"
    entries = [struct.pack(order + "HHI4x", 0x0100 + n, 3, 1) for n in range(entries_before)]
    entries.append(struct.pack(order + "HHIHxx", ORIENTATION, 3, 1, tag))
    count = struct.pack(order + "H", len(entries))
    return (
        b"Exif\x00\x00" + byte_order + struct.pack(order + "HI", 42, 8) + count + b"".join(entries)
    )


def with_part(jpeg, part, before=b""):
    """A JPEG file with an APP1 part behind others."""
    return jpeg[:2] + before + b"\xff\xe1" + struct.pack(">H", len(part) + 2) + part + jpeg[2:]


@pytest.mark.parametrize("byte_order", [b"II", b"MM"])
@pytest.mark.parametrize("tag", range(1, 9))
def test_a_photo_is_turned_as_pillow_turns_it(tag, byte_order):
    comment = b"\xff\xfe" + struct.pack(">H", 7) + b"hello"
    plain = saved(photo(), "JPEG", quality=95)
    content = with_part(plain, exif(tag, byte_order), comment)
    assert int(tag_of(content)) == tag
    found = decode(tf.constant([content])).pixels[0]
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    assert upright.getexif().get(ORIENTATION, 1) == 1
    np.testing.assert_allclose(found, crop_square(np.asarray(upright), SIZE), atol=0.01)


def test_what_pillow_writes_is_read():
    picture = photo()
    tags = picture.getexif()
    tags[ORIENTATION] = 6
    tags[0x010E] = "a description that lies elsewhere"
    assert int(tag_of(saved(picture, "JPEG", exif=tags))) == 6
    assert int(tag_of(saved(picture, "JPEG"))) == 1


def test_no_bytes_make_the_orientation_fail():
    whole = with_part(saved(photo(), "JPEG"), exif(6))
    for length in range(0, 120):
        assert int(tag_of(whole[:length])) in (1, 6)
    random = np.random.default_rng(3)
    for _ in range(200):
        torn = bytearray(whole[:200])
        for place in random.integers(2, 90, 4):
            torn[place] = random.integers(256)
        assert 1 <= int(tag_of(bytes(torn))) <= 8
    for tag in (0, 9, 65_535):
        assert int(tag_of(with_part(saved(photo(), "JPEG"), exif(tag)))) == 1
    endless = b"\xff\xd8" + b"\xff\xe2\x00\x00" * 100
    assert int(tag_of(endless)) == 1


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("RGB", "JPEG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("RGB", "PNG"), ("L", "PNG"),
        ("1", "PNG"), ("P", "PNG"), ("P16", "PNG"), ("PA", "PNG"), ("LA", "PNG"),
        ("RGBA", "PNG"), ("P", "GIF"), ("RGB", "BMP"),
    ],
)  # fmt: skip
def test_a_server_sees_what_prepare_saw(tmp_path, mode, kind):
    picture = photo().quantize(16) if mode in ("P16", "PA") else photo().convert(mode)
    if mode in ("LA", "RGBA"):
        picture.putalpha(Image.fromarray(np.tile(np.arange(30, dtype=np.uint8) * 8, [20, 1])))
    transparent = {"transparency": 3} if mode == "PA" else {}
    (tmp_path / "picture").write_bytes(saved(picture, kind, **transparent))
    wanted = crop_square(read_picture(str(tmp_path / "picture"), LIMIT), SIZE)
    found = decode(tf.constant([(tmp_path / "picture").read_bytes()]))
    assert found.problems.numpy().tolist() == [NO_PROBLEM]
    np.testing.assert_allclose(found.pixels[0], wanted, atol=1.0)


def test_each_file_has_its_own_problem():
    jpeg, png = saved(photo(), "JPEG"), saved(photo(), "PNG")
    files = [
        png, b"", b"not a picture", jpeg[: len(jpeg) // 2], jpeg[:3], png[:20], png[:60], jpeg,
        saved(photo(200, 100), "JPEG"), saved(photo(200, 100), "PNG"),
        saved(photo(200, 100), "GIF"), saved(photo(200, 100), "BMP"), b"BM", b"RIFF0000WEBP",
    ]  # fmt: skip
    found = decode(tf.constant(files))
    assert found.problems.numpy().tolist() == [
        NO_PROBLEM, EMPTY, UNKNOWN_KIND, BROKEN, BROKEN, BROKEN, BROKEN, NO_PROBLEM,
        TOO_LARGE, TOO_LARGE, TOO_LARGE, TOO_LARGE, BROKEN, UNKNOWN_KIND,
    ]  # fmt: skip
    assert found.rows.numpy().tolist() == [0, 7]
    for pixels in found.pixels:
        np.testing.assert_allclose(pixels, crop_square(np.asarray(photo()), SIZE), atol=12)


@pytest.mark.parametrize("files", [[b""], [b"none", b""], []])
def test_without_any_picture_there_is_a_black_one_of_no_row(files):
    found = decode(tf.constant(files, tf.string))
    assert found.rows.numpy().tolist() == [-1]
    assert found.pixels.shape == (1, SIZE, SIZE, 3) and not np.any(found.pixels)
    assert found.problems.shape == (len(files),)
