"""Files of pictures to pixels inside a graph, each by itself."""

from typing import NamedTuple

import tensorflow as tf

from models.vision.contract import crop_square

_JPEG, _PNG, _GIF, _BMP = b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM"


class DecodedPictures(NamedTuple):
    """The N of B pictures that could be decoded; a black one of row -1 where none could."""

    rows: tf.Tensor  # [N], int32: which they are
    pixels: tf.Tensor  # [N, S, S, 3], float32 in 0..255


def decode_pictures(files: tf.Tensor, size: int, max_pixels: int) -> DecodedPictures:
    """Decode JPEG, PNG, GIF and BMP; what is none, torn or too large is left out.

    A graph has no other way to go on after a broken file than a dataset that ignores errors. The
    size is read from the header, before anything is decoded.

    Args:
        files: String [B].
        size: Side S of the middle square that is kept.
        max_pixels: Pixels of a picture at most.
    """

    def decode(row: tf.Tensor, file: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pixels = tf.io.decode_image(file, channels=3, expand_animations=False)
        return row, crop_square(tf.ensure_shape(pixels, [None, None, 3]), size)

    count = tf.shape(files)[0]
    pictures = (
        tf.data.Dataset.from_tensor_slices((tf.range(count), files))
        .filter(lambda row, file: _told_pixels(file) <= max_pixels)
        .map(decode)
        .ignore_errors()
    )
    # One that is none, so that there always is an element.
    nothing = (tf.constant(-1), tf.zeros([size, size, 3]))
    padded = pictures.concatenate(tf.data.Dataset.from_tensors(nothing))
    rows, pixels = padded.batch(tf.cast(count, tf.int64) + 1).get_single_element()
    # Networks are not made for no pictures at all.
    kept = tf.maximum(tf.shape(rows)[0] - 1, 1)
    return DecodedPictures(rows[:kept], pixels[:kept])


def _told_pixels(file: tf.Tensor) -> tf.Tensor:
    """Pixels that the header of a file, string [], tells, int64 []; 0 of an unknown kind.

    Raises an error of the graph where the file is shorter than its header.
    """

    def numbers(place: int, length: int, dtype: tf.DType, little: bool) -> tf.Tensor:
        sides = tf.io.decode_raw(tf.strings.substr(file, place, length), dtype, little)
        return tf.reduce_prod(tf.abs(tf.cast(sides, tf.int64)))

    first = tf.strings.substr(file, 0, 4)
    two, three = tf.strings.substr(first, 0, 2), tf.strings.substr(first, 0, 3)
    return tf.case(
        [
            (
                tf.equal(three, _JPEG),
                lambda: tf.reduce_prod(tf.cast(tf.io.extract_jpeg_shape(file)[:2], tf.int64)),
            ),
            (tf.equal(first, _PNG), lambda: numbers(16, 8, tf.int32, False)),
            (tf.equal(first, _GIF), lambda: numbers(6, 4, tf.uint16, True)),
            (
                tf.equal(two, _BMP),
                lambda: numbers(18, 8, tf.int32, True),
            ),
        ],
        default=lambda: tf.constant(0, tf.int64),
        exclusive=False,
    )
