"""Files of pictures to pixels inside a graph, each by itself."""

from typing import NamedTuple

import tensorflow as tf

from models.vision.contract import crop_square
from models.vision.orientation import orientation, turned
from models.vision.problems import BROKEN, EMPTY, NO_PROBLEM, TOO_LARGE, UNKNOWN_KIND

_JPEG, _PNG, _GIF, _BMP = b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM"


class DecodedPictures(NamedTuple):
    """The N of B pictures that could be decoded; a black one of row -1 where none could."""

    rows: tf.Tensor  # [N], int32: which they are
    pixels: tf.Tensor  # [N, S, S, 3], float32 in 0..255
    problems: tf.Tensor  # [B], int32: codes of `models.vision.problems`


class _Kinds(NamedTuple):
    """What files begin like, each bool of their shape."""

    jpeg: tf.Tensor
    png: tf.Tensor
    gif: tf.Tensor
    bmp: tf.Tensor

    @property
    def known(self) -> tf.Tensor:
        """Whether it is any of these."""
        return self.jpeg | self.png | self.gif | self.bmp


def decode_pictures(files: tf.Tensor, size: int, max_pixels: int) -> DecodedPictures:
    """Decode JPEG, PNG, GIF and BMP; what is none, torn or too large is left out.

    A graph has no other way to go on after a broken file than a dataset that ignores errors. The
    size is read from the header, before anything is decoded. Pixels are those that `prepare`
    reads: photos are turned as their EXIF says, and what is transparent lies on white.

    Args:
        files: String [B].
        size: Side S of the middle square that is kept.
        max_pixels: Pixels of a picture at most.
    """

    def read(row: tf.Tensor, file: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        too_large = _told_pixels(file) > max_pixels
        black = tf.zeros([size, size, 3])
        pixels = tf.cond(too_large, lambda: black, lambda: crop_square(_pixels(file), size))
        return row, tf.where(too_large, TOO_LARGE, NO_PROBLEM), tf.ensure_shape(pixels, black.shape)

    count = tf.shape(files)[0]
    pictures = (
        tf.data.Dataset.from_tensor_slices((tf.range(count), files))
        .filter(lambda row, file: _kinds(file).known)
        .map(read)
        .ignore_errors()
    )
    # One that is none, so that there always is an element.
    nothing = (tf.constant(-1), tf.constant(TOO_LARGE), tf.zeros([size, size, 3]))
    padded = pictures.concatenate(tf.data.Dataset.from_tensors(nothing))
    rows, problems, pixels = padded.batch(tf.cast(count, tf.int64) + 1).get_single_element()
    unread = tf.where(_kinds(files).known, BROKEN, UNKNOWN_KIND)  # [B]
    unread = tf.where(tf.strings.length(files) == 0, EMPTY, unread)
    real = rows[:-1, tf.newaxis]  # [M, 1]
    every = tf.tensor_scatter_nd_update(unread, real, problems[:-1])  # [B]
    # Networks are not made for no pictures at all.
    good = tf.where(problems == NO_PROBLEM)[:, 0]  # [N]
    good = tf.cond(tf.size(good) > 0, lambda: good, lambda: tf.size(rows, tf.int64)[tf.newaxis] - 1)
    kept = tf.where(tf.gather(problems, good) == NO_PROBLEM, tf.gather(rows, good), -1)
    return DecodedPictures(kept, tf.gather(pixels, good), every)


def _kinds(files: tf.Tensor) -> _Kinds:
    def begin(mark: bytes) -> tf.Tensor:
        return tf.equal(tf.strings.substr(files, 0, len(mark)), mark)

    return _Kinds(begin(_JPEG), begin(_PNG), begin(_GIF), begin(_BMP))


def _pixels(file: tf.Tensor) -> tf.Tensor:
    """Pixels of a file, string [], of a known kind: uint8 or float32 [H, W, 3]."""
    kinds = _kinds(file)
    pixels = tf.case(
        [
            (kinds.jpeg, lambda: _jpeg(file)),
            (kinds.png, lambda: _png(file)),
        ],
        default=lambda: tf.cast(
            tf.io.decode_image(file, channels=3, expand_animations=False), tf.float32
        ),
    )
    return tf.ensure_shape(pixels, [None, None, 3])


def _jpeg(file: tf.Tensor) -> tf.Tensor:
    # As exactly as Pillow decodes; TensorFlow's default is quicker by little.
    pixels = tf.io.decode_jpeg(file, 3, dct_method="INTEGER_ACCURATE")
    return tf.cast(turned(pixels, orientation(file)), tf.float32)


def _png(file: tf.Tensor) -> tf.Tensor:
    """On white where it is transparent."""
    with_alpha = tf.cast(tf.io.decode_png(file, 4), tf.float32)  # [H, W, 4]
    opaque = with_alpha[..., 3:] / 255.0  # [H, W, 1]
    # To pictures of less than 8 bits without transparency TensorFlow gives an alpha of these bits.
    depth = tf.cast(tf.io.decode_raw(tf.strings.substr(file, 24, 1), tf.uint8)[0], tf.float32)
    wrong = (depth < 8.0) & tf.reduce_all(with_alpha[..., 3:] == 2.0**depth - 1.0)
    opaque = tf.where(wrong, tf.ones_like(opaque), opaque)
    return with_alpha[..., :3] * opaque + 255.0 * (1.0 - opaque)


def _told_pixels(file: tf.Tensor) -> tf.Tensor:
    """Pixels that the header of a file, string [], tells, int64 []; 0 of an unknown kind.

    Raises an error of the graph where the file is shorter than its header.
    """

    def numbers(place: int, length: int, dtype: tf.DType, little: bool) -> tf.Tensor:
        sides = tf.io.decode_raw(tf.strings.substr(file, place, length), dtype, little)
        return tf.reduce_prod(tf.abs(tf.cast(sides, tf.int64)))

    kinds = _kinds(file)
    return tf.case(
        [
            (
                kinds.jpeg,
                lambda: tf.reduce_prod(tf.cast(tf.io.extract_jpeg_shape(file)[:2], tf.int64)),
            ),
            (kinds.png, lambda: numbers(16, 8, tf.int32, False)),
            (kinds.gif, lambda: numbers(6, 4, tf.uint16, True)),
            (kinds.bmp, lambda: numbers(18, 8, tf.int32, True)),
        ],
        default=lambda: tf.constant(0, tf.int64),
        exclusive=False,
    )
