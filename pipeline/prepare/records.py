"""The record schema: the one file that the writer and the readers of records share.

A record is a `tf.train.Example`. It is encoded here by hand, because TensorFlow would
take a worker seconds to import, and because the encoding has to give the same bytes on
every run, which protocol buffers' own serialisers do not promise.

| feature | type | meaning |
|---|---|---|
| `source`, `target` | int64 list | piece ids without begin and end marks, at least one |
| `source_text`, `target_text` | bytes | the sentences as they stood in the corpus, UTF-8 |
| `picture` | int64 | its picture's row in the files of `picture_files`, where there is one |
| `picture_shard` | bytes | the shard beside which these files lie |
| `id` | bytes | where the pair stood, as `train[0]:17`: input and line number from 1 |

Where the picture is a clip, `picture` is the row of its first frame, and `source` numbers its
frames from 0.
"""

import struct
from collections.abc import Sequence

import google_crc32c

from pipeline.prepare.picture_files import StoredPicture

SOURCE = "source"
TARGET = "target"
SOURCE_TEXT = "source_text"
TARGET_TEXT = "target_text"
PICTURE = "picture"
PICTURE_SHARD = "picture_shard"
ID = "id"

# Raise it when the same inputs give other records: older ones are then refused.
SCHEMA_VERSION = 1

_CRC_MASK = 0xA282EAD8


def feature_description() -> dict:
    """Features for `tf.io.parse_example`.

    Returns:
        `source` and `target` as `tf.io.RaggedFeature` of int64, the texts and `id` as scalar
        strings, and `picture` and `picture_shard`, which are -1 and "" where there is none.
    """
    import tensorflow as tf

    ids = {name: tf.io.RaggedFeature(tf.int64) for name in (SOURCE, TARGET)}
    texts = (SOURCE_TEXT, TARGET_TEXT, ID)
    return {
        **ids,
        **{name: tf.io.FixedLenFeature([], tf.string) for name in texts},
        PICTURE: tf.io.FixedLenFeature([], tf.int64, default_value=-1),
        PICTURE_SHARD: tf.io.FixedLenFeature([], tf.string, default_value=b""),
    }


def encode_example(
    source: Sequence[int],
    target: Sequence[int],
    source_text: bytes,
    target_text: bytes,
    identity: bytes,
    picture: StoredPicture | None = None,
) -> bytes:
    """Serialise one record.

    Args:
        source: Piece ids.
        target: Likewise.
        source_text: UTF-8.
        target_text: Likewise.
        identity: The record's `id`.
        picture: Where its picture lies; None where there is none.

    Returns:
        A serialised `tf.train.Example`, its features in alphabetical order.
    """
    features = (
        _bytes_feature(_ID_KEY, identity)
        + _picture_features(picture)
        + _ids_feature(_SOURCE_KEY, source)
        + _bytes_feature(_SOURCE_TEXT_KEY, source_text)
        + _ids_feature(_TARGET_KEY, target)
        + _bytes_feature(_TARGET_TEXT_KEY, target_text)
    )
    return _field(b"\x0a", features)  # Example.features


def frame(record: bytes) -> bytes:
    """A record as it stands in a TFRecord file: length, bytes, and a checksum of each."""
    length = struct.pack("<Q", len(record))
    return b"".join((length, _masked_checksum(length), record, _masked_checksum(record)))


def _masked_checksum(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + _CRC_MASK) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_VARINTS = [_varint(number) for number in range(1 << 15)]


def _field(tag: bytes, payload: bytes) -> bytes:
    """A length-delimited field: tag, length, payload."""
    length = len(payload)
    return tag + (_VARINTS[length] if length < 1 << 15 else _varint(length)) + payload


def _bytes_feature(key: bytes, value: bytes) -> bytes:
    bytes_list = _field(b"\x0a", _field(b"\x0a", value))  # Feature.bytes_list.value
    return _field(b"\x0a", key + _field(b"\x12", bytes_list))  # Features.feature[key]


def _ids_feature(key: bytes, ids: Sequence[int]) -> bytes:
    try:
        packed = b"".join(map(_VARINTS.__getitem__, ids))
    except IndexError:
        packed = b"".join(map(_varint, ids))
    int64_list = _field(b"\x1a", _field(b"\x0a", packed))  # Feature.int64_list.value
    return _field(b"\x0a", key + _field(b"\x12", int64_list))  # Features.feature[key]


def _picture_features(picture: StoredPicture | None) -> bytes:
    if picture is None:
        return b""
    shard = _bytes_feature(_PICTURE_SHARD_KEY, picture.shard.encode())
    return _ids_feature(_PICTURE_KEY, [picture.row]) + shard


def _key(name: str) -> bytes:
    return _field(b"\x0a", name.encode())


_ID_KEY = _key(ID)
_PICTURE_KEY, _PICTURE_SHARD_KEY = _key(PICTURE), _key(PICTURE_SHARD)
_SOURCE_KEY, _SOURCE_TEXT_KEY = _key(SOURCE), _key(SOURCE_TEXT)
_TARGET_KEY, _TARGET_TEXT_KEY = _key(TARGET), _key(TARGET_TEXT)
