import gzip

import pytest

from pipeline.prepare.records import encode_example, feature_description, frame
from tests.hostile_strings import hostile_strings

tf = pytest.importorskip("tensorflow")

ROWS = [
    ([4, 127, 128, 16383, 16384], [5], "été".encode(), "a\u2028b".encode(), b"train[0]:1"),
    ([7] * 200, list(range(1000)), b"x" * 40_000, b"y" * 200, b"test[12]:123456789"),
    ([1 << 15, (1 << 31) - 1], [0], b"", b"z" * 127, b""),
]


@pytest.mark.parametrize("row", ROWS)
def test_tensorflow_reads_what_is_encoded(row):
    example = tf.train.Example.FromString(encode_example(*row))
    feature = example.features.feature
    assert list(feature["source"].int64_list.value) == row[0]
    assert list(feature["target"].int64_list.value) == row[1]
    assert feature["source_text"].bytes_list.value[:] == [row[2]]
    assert feature["target_text"].bytes_list.value[:] == [row[3]]
    assert feature["id"].bytes_list.value[:] == [row[4]]
    assert len(feature) == 5


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_a_record_file_is_read_by_tf_data(tmp_path, compression):
    path = tmp_path / "records"
    opener = gzip.open if compression else open
    with opener(path, "wb") as file:
        file.writelines(frame(encode_example(*row)) for row in ROWS)
    dataset = tf.data.TFRecordDataset(str(path), compression).batch(len(ROWS))
    (batch,) = dataset
    parsed = tf.io.parse_example(batch, feature_description())
    assert parsed["source"].to_list() == [row[0] for row in ROWS]
    assert parsed["target"].to_list() == [row[1] for row in ROWS]
    for index, name in enumerate(("source_text", "target_text", "id"), 2):
        assert parsed[name].numpy().tolist() == [row[index] for row in ROWS]


def test_hostile_texts_come_back_byte_for_byte():
    texts = [string.encode() for string in hostile_strings(200)]
    records = [encode_example([4], [4], text, text, b"i") for text in texts]
    parsed = tf.io.parse_example(records, feature_description())
    assert parsed["source_text"].numpy().tolist() == texts


def test_a_flipped_byte_is_noticed(tmp_path):
    framed = bytearray(frame(encode_example(*ROWS[0])))
    framed[40] ^= 1
    (tmp_path / "records").write_bytes(framed)
    with pytest.raises(tf.errors.DataLossError):
        list(tf.data.TFRecordDataset(str(tmp_path / "records")))
