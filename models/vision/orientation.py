"""How a photo is to be turned, which JPEG files tell in their EXIF part, inside a graph."""

import tensorflow as tf

# EXIF lies within the first segments, each of 64 KB at most; a thumbnail may be among them.
_READ = 1 << 18
_MARKS = 2  # bytes of FF D8, which a JPEG file begins with
_SEGMENT, _EXIF, _PIXELS = 0xFF, 0xE1, 0xDA
_HEADER = b"Exif\x00\x00"
_LITTLE_ENDIAN = ord("I")
_ORIENTATION = 0x0112
_ENTRY = 12  # bytes of an entry of a directory


def orientation(file: tf.Tensor) -> tf.Tensor:
    """The value of EXIF's tag `Orientation`, int32 [] in 1..8; 1 where none can be found.

    Nothing that a file holds raises an error: what lies beyond its end reads as zeros.

    Args:
        file: A JPEG file, string [].
    """
    content = _Bytes(file)
    tiff = _tiff_header(content)  # -1 if there is none
    value = content.number(_value_place(content, tiff), 2, _is_little(content, tiff))
    known = (tiff >= 0) & (value >= 1) & (value <= 8)
    return tf.cast(tf.where(known, value, 1), tf.int32)


def turned(pixels: tf.Tensor, tag: tf.Tensor) -> tf.Tensor:
    """Pixels as they are to be seen.

    Args:
        pixels: [H, W, C].
        tag: As `orientation` gives it.

    Returns:
        [H, W, C], or [W, H, C] where the photo was taken upright.
    """
    lying = tf.cond(tag >= 5, lambda: tf.transpose(pixels, [1, 0, 2]), lambda: pixels)
    mirrored = _among(tag, 2, 3, 6, 7)
    lying = tf.cond(mirrored, lambda: tf.reverse(lying, [1]), lambda: lying)
    return tf.cond(_among(tag, 3, 4, 7, 8), lambda: tf.reverse(lying, [0]), lambda: lying)


class _Bytes:
    """The bytes of a file, any of which may be asked for."""

    def __init__(self, file: tf.Tensor):
        # A byte more, so that there is one to gather.
        read = tf.strings.join([tf.strings.substr(file, 0, _READ), tf.constant(b"\x00")])
        self._values = tf.cast(tf.io.decode_raw(read, tf.uint8), tf.int64)  # [L]
        self.length = tf.size(self._values, tf.int64) - 1

    def at(self, places: tf.Tensor) -> tf.Tensor:
        """Bytes at int64 places of any shape; 0 outside of the file."""
        inside = (places >= 0) & (places < self.length)
        return tf.gather(self._values, tf.where(inside, places, self.length))

    def number(self, place: tf.Tensor, size: int, little: tf.Tensor) -> tf.Tensor:
        """The unsigned number of `size` bytes at a place, or at each of several."""
        parts = tf.stack([self.at(place + offset) for offset in range(size)], -1)  # [..., size]
        scales = tf.constant([256**offset for offset in range(size)], tf.int64)
        return tf.reduce_sum(parts * tf.where(little, scales, scales[::-1]), -1)


def _tiff_header(content: _Bytes) -> tf.Tensor:
    """Place of the header that EXIF's directories count from, int64 []; -1 without EXIF."""

    def is_exif(place: tf.Tensor) -> tf.Tensor:
        head = content.at(place + 4 + tf.range(len(_HEADER), dtype=tf.int64))
        wanted = tf.constant(list(_HEADER), tf.int64)
        return (content.at(place + 1) == _EXIF) & tf.reduce_all(head == wanted)

    def goes_on(place: tf.Tensor) -> tf.Tensor:
        marker = content.at(place + 1)
        segment = (content.at(place) == _SEGMENT) & (marker != _PIXELS) & (marker != 0)
        return (place < content.length) & segment & ~is_exif(place)

    def following(place: tf.Tensor) -> tuple[tf.Tensor]:
        # A length of less than its own two bytes would be read for ever.
        length = content.number(place + 2, 2, tf.constant(False))
        return (place + 2 + tf.maximum(length, 2),)

    (place,) = tf.while_loop(goes_on, following, (tf.constant(_MARKS, tf.int64),))
    found = (content.at(place) == _SEGMENT) & is_exif(place)
    return tf.where(found, place + 4 + len(_HEADER), tf.constant(-1, tf.int64))


def _is_little(content: _Bytes, tiff: tf.Tensor) -> tf.Tensor:
    return content.at(tiff) == _LITTLE_ENDIAN


def _value_place(content: _Bytes, tiff: tf.Tensor) -> tf.Tensor:
    """Place of the value of the first directory's entry for the orientation; -2 without one."""
    little = _is_little(content, tiff)
    directory = tiff + content.number(tiff + 4, 4, little)
    count = content.number(directory, 2, little)
    entries = directory + 2 + _ENTRY * tf.range(count)  # [N]
    tags = content.number(entries, 2, little)  # [N]
    found = tf.boolean_mask(entries, tags == _ORIENTATION)
    return tf.concat([found, [-10]], 0)[0] + 8


def _among(tag: tf.Tensor, *values: int) -> tf.Tensor:
    return tf.reduce_any(tag == tf.constant(values, tag.dtype))
