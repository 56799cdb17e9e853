"""Streams: every word once, in order, each row going on where it was."""

import numpy as np
import pytest

from models.special_ids import END_ID, PAD_ID
from pipeline.prepare.records import encode_example, frame
from pipeline.streams import (
    StreamCut,
    draw_restarts,
    in_order_of,
    read_stream,
    stream_batches,
)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Two record files of lines of 0 to 9 words."""
    folder = tmp_path_factory.mktemp("records")
    paths, lines = [folder / f"train-{index:05d}-of-00002.tfrecord" for index in range(2)], []
    generator = np.random.default_rng(1)
    for path in paths:
        with path.open("wb") as file:
            for _ in range(40):
                ids = generator.integers(4, 50, generator.integers(0, 10)).tolist()
                lines.append(ids)
                file.write(frame(encode_example([], ids, b"", b"text", b"id")))
    return paths, lines


def numpy_batches(words, cut, skip=0):
    return [
        (inputs["target"].numpy(), inputs["continues"].numpy(), labels.numpy())
        for inputs, labels in stream_batches(words, cut, skip)
    ]


def test_lines_follow_each_other_with_their_end_marks(shards):
    paths, lines = shards
    words = read_stream(paths)
    assert words.dtype == np.int32
    assert words.tolist() == [word for line in lines for word in [*line, END_ID]]
    assert read_stream([]).tolist() == []


@pytest.mark.parametrize("count", [0, 1, 7, 60, 61, 64, 200])
@pytest.mark.parametrize("cut", [StreamCut(1, 5), StreamCut(4, 5), StreamCut(16, 4)], ids=str)
def test_rows_put_together_again_are_the_stream(cut, count):
    words = np.random.default_rng(count).integers(4, 50, count).astype(np.int32)
    batches = numpy_batches(words, cut)
    assert len(batches) == cut.segments(count)
    for index, (inputs, continues, labels) in enumerate(batches):
        assert inputs.shape == labels.shape and labels.shape[0] == cut.rows
        assert labels.shape[1] == cut.length or index == len(batches) - 1
        assert continues.tolist() == [int(index > 0)] * cut.rows
    if batches:
        inputs, labels = (np.concatenate([b[part] for b in batches], 1) for part in (0, 2))
        stream = labels.reshape(-1)
        assert stream[:count].tolist() == words.tolist() and not stream[count:].any()
        # Each input is the word before its label, across rows and segments too.
        assert inputs.reshape(-1)[:count].tolist() == [END_ID, *words[:-1]]
        assert (inputs != PAD_ID).all()


@pytest.mark.parametrize("skip", [1, 3, 1000])
def test_skipping_gives_the_rest(skip):
    words, cut = np.arange(4, 204, dtype=np.int32), StreamCut(4, 7)
    whole, rest = numpy_batches(words, cut), numpy_batches(words, cut, skip)
    assert len(rest) == max(len(whole) - skip, 0)
    for found, wanted in zip(rest, whole[skip:], strict=True):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_some_rows_start_anew_by_seed_and_epoch():
    words, cut = np.arange(4, 404, dtype=np.int32), StreamCut(8, 5)
    restarts = draw_restarts(0.3, cut, len(words), 1, 0)
    assert restarts.shape == (10, 8) and 0.15 < restarts.mean() < 0.45
    np.testing.assert_array_equal(restarts, draw_restarts(0.3, cut, len(words), 1, 0))
    for other in ((1, 1), (2, 0)):
        assert (restarts != draw_restarts(0.3, cut, len(words), *other)).any()
    assert not draw_restarts(0.0, cut, len(words), 1, 0).any()
    plain = numpy_batches(words, cut)
    for skip in (0, 4):
        for index, found in enumerate(stream_batches(words, cut, skip, restarts), skip):
            inputs, labels = found
            wanted = ~restarts[index] if index else np.zeros(8, bool)
            assert inputs["continues"].numpy().tolist() == wanted.astype(int).tolist()
            np.testing.assert_array_equal(inputs["target"], plain[index][0])
            np.testing.assert_array_equal(labels, plain[index][2])


def test_rows_are_what_a_batch_has_room_for():
    assert StreamCut.of(256, 10) == StreamCut(25, 10)
    assert StreamCut.of(8, 10) == StreamCut(1, 10)


def test_the_order_of_files_is_a_function_of_seed_and_epoch():
    names = list(range(20))
    assert in_order_of(0, 1, names) == in_order_of(0, 1, names)
    assert in_order_of(0, 1, names) != in_order_of(1, 1, names)
    assert in_order_of(0, 1, names) != in_order_of(0, 2, names)
    assert sorted(in_order_of(5, 1, names)) == names == list(range(20))
