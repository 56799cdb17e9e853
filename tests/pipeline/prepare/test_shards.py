import random

import pytest

from pipeline.prepare.hashing import SeededHash
from pipeline.prepare.shards import (
    EncodedPair,
    ShardOptions,
    ShardWriter,
    pack_ids,
    pack_pairs,
    side_statistics,
    unpack_ids,
    unpack_pairs,
)

ORDER = SeededHash(1, "order")


def pair(text, input=0, line=1, source=(4, 5), target=(6,)):
    return EncodedPair(
        ORDER.digest(text), input, line, pack_ids(source), pack_ids(target), text, text
    )


def write(folder, pairs, **keys):
    options = {
        "split": "train",
        "names": ("shard",),
        "shuffled": True,
        "drop_duplicates": True,
        "compression": "none",
    }
    folder.mkdir(exist_ok=True)
    writer = ShardWriter(ShardOptions(**(options | keys)), folder, ("train[0]", "train[1]"), ORDER)
    report = writer.write("shard", pairs)
    assert [path.name for path in folder.iterdir()] == ["shard"]
    return (folder / "shard").read_bytes(), report


def places(data, pairs):
    """Input and line of the pairs, in the order in which their `id` stands in a file."""
    found = []
    for candidate in pairs:
        # The id is the first feature of a record; the next one begins with \n.
        identity = b"train[%d]:%d\n" % (candidate.input, candidate.line)
        if identity in data:
            found.append((data.index(identity), (candidate.input, candidate.line)))
    return [place for _, place in sorted(found)]


PAIRS = [pair(b"text %d" % line, line=line) for line in range(100, 200)]


def test_ids_and_pairs_come_out_of_the_shuffle_as_they_went_in():
    assert list(unpack_ids(pack_ids([0, 1, 70_000]))) == [0, 1, 70_000]
    packed = [pack_pairs(PAIRS[:10]), pack_pairs([]), pack_pairs(PAIRS[10:])]
    assert list(unpack_pairs(packed)) == PAIRS


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_order_of_arrival_does_not_matter(tmp_path, compression):
    shuffled = random.Random(1).sample(PAIRS, len(PAIRS))
    one, _ = write(tmp_path / "one", PAIRS, compression=compression)
    other, _ = write(tmp_path / "other", shuffled, compression=compression)
    assert one == other
    assert (one[:2] == b"\x1f\x8b") == (compression == "gzip")


def test_training_records_are_shuffled_and_others_keep_their_order(tmp_path):
    shuffled, _ = write(tmp_path / "train", PAIRS)
    kept, _ = write(tmp_path / "test", random.Random(1).sample(PAIRS, 100), shuffled=False)
    lines = [(0, line) for line in range(100, 200)]
    assert places(kept, PAIRS) == lines
    assert places(shuffled, PAIRS) != lines
    assert sorted(places(shuffled, PAIRS)) == lines


def test_the_earliest_of_equal_pairs_stays(tmp_path):
    equal = [
        pair(b"same", 1, 20),
        pair(b"same", 0, 31),
        pair(b"same", 0, 30),
        pair(b"other", 0, 40),
    ]
    data, report = write(tmp_path / "shard", equal)
    assert sorted(places(data, equal)) == [(0, 30), (0, 40)]
    assert report.tallies[0, "train"].pairs_out == 2
    assert report.tallies[0, "train"].dropped["duplicate"].first_lines == [31]
    assert report.tallies[1, "train"].dropped["duplicate"].first_lines == [20]
    assert report.shards["train", "shard"].rows == 2


def test_equal_pairs_that_may_stay_do_not_stand_together(tmp_path):
    equal = [pair(b"same", line=line) for line in range(300, 310)]
    data, report = write(tmp_path / "shard", PAIRS + equal, drop_duplicates=False)
    order = places(data, PAIRS + equal)
    assert len(order) == 110
    spots = [order.index((0, line)) for line in range(300, 310)]
    assert max(spots) - min(spots) > 30
    assert report.tallies[0, "train"].pairs_out == 110


def test_a_shard_without_pairs_is_an_empty_file(tmp_path):
    data, report = write(tmp_path / "shard", [])
    assert data == b""
    assert report.shards["train", "shard"].rows == 0


def test_statistics_of_a_side():
    statistics = side_statistics([pack_ids([4, 1, 4]), pack_ids([5]), pack_ids([4, 4, 5])])
    assert statistics.lengths.tolist() == [0, 1, 0, 2]
    assert statistics.pieces.tolist() == [0, 1, 0, 0, 4, 2]
