"""Batches that readers of their own files give together, whoever has the readers."""

import concurrent.futures
import threading

import numpy as np
import pytest
import tensorflow as tf

from models.errors import UserError
from models.special_ids import PAD_ID
from pipeline.batch_plan import BatchOptions
from pipeline.batches import count_batches, epoch_length, training_batches
from pipeline.prepare.records import encode_example, frame
from pipeline.train.readers import Readers
from pipeline.train.replicas import Cluster, Replicas
from tests.pipeline.test_batches import mark

OPTIONS = BatchOptions(batch_tokens=128, shuffle_pool=60)
UNEVEN = [5, 90, 0, 40, 30]


def write_shards(folder, counts):
    """Record files of so many pairs of lengths 1 to 20, numbered in their order."""
    generator = np.random.default_rng(0)
    number = 0
    paths = []
    for index, count in enumerate(counts):
        paths.append(folder / f"train-{index:05d}-of-{len(counts):05d}.tfrecord")
        with paths[-1].open("wb") as file:
            for _ in range(count):
                ids = [4 + number] + [4] * int(generator.integers(0, 19))
                file.write(frame(encode_example(ids, ids, b"", b"", b"id")))
                number += 1
    return paths


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("records"), [67, 67, 66])


class Task:
    """Makes batches as the tasks do."""

    def training_batches(self, shards, options, epoch, skip=0):
        return training_batches(shards, options, mark, 1, epoch, skip)

    def epoch_length(self, shards, options, epoch):
        return epoch_length(shards, options, 1, epoch)

    def count_batches(self, shards, options):
        return count_batches(shards, options)


class Meeting:
    """Where the threads of some workers tell each other what they have."""

    def __init__(self, workers):
        self.told = [None] * workers
        self.barrier = threading.Barrier(workers, timeout=60)


class Worker(Replicas):
    """One of some workers, each with a replica."""

    def __init__(self, index, meeting):
        super().__init__(tf.distribute.get_strategy(), Cluster(len(meeting.told), index))
        self.count, self._local = len(meeting.told), 1
        self._meeting = meeting

    def gather(self, value):
        self._meeting.told[self.cluster.index] = value
        self._meeting.barrier.wait()
        return self._meeting.told


def alone():
    return Replicas(tf.distribute.get_strategy(), Cluster())


def numbers(part):
    """The pairs of a part, of one process or of a worker's only replica."""
    labels = part[1].numpy()
    labels = labels.reshape(-1, labels.shape[-1])
    return labels[(labels != PAD_ID).any(1), 0].tolist()


def read(replicas, shards, readers, epoch=0, skip=0):
    """Of each batch the parts, each as its pairs."""
    batches = Readers(Task(), shards, readers, replicas).epoch(OPTIONS, epoch, skip).batches
    return [[numbers(part) for part in parts] for parts in batches]


def read_by(workers, *arguments):
    """What each of some workers reads."""
    meeting = Meeting(workers)
    with concurrent.futures.ThreadPoolExecutor(workers) as threads:
        return list(
            threads.map(lambda index: read(Worker(index, meeting), *arguments), range(workers))
        )


@pytest.mark.parametrize(("workers", "readers"), [(3, 3), (2, 4)])
def test_workers_read_together_what_one_process_reads(workers, readers, tmp_path):
    """Also where a file has none of the pairs, and one has most."""
    shards = write_shards(tmp_path, UNEVEN)
    wanted = read(alone(), shards, readers)
    found = read_by(workers, shards, readers)
    assert {len(each) for each in found} == {len(wanted)}
    for whole, *shares in zip(wanted, *found, strict=True):
        assert all(shares)
        parts = [part for share in shares for part in share if part]
        assert sorted(parts) == sorted(whole)
    every = [pair for whole in wanted for part in whole for pair in part]
    assert sorted(every) == list(range(4, 169))
    # Some had come to their ends before others, and went on with pads.
    assert any(share == [[]] for each in found for share in each)


@pytest.mark.parametrize("skip", [3, 1000])
def test_what_is_skipped_is_the_same_for_all(skip, tmp_path):
    shards = write_shards(tmp_path, UNEVEN)
    whole = read(alone(), shards, 2, 3)
    assert read(alone(), shards, 2, 3, skip) == whole[skip:]
    rest = read_by(2, shards, 2, 3, skip)
    assert rest == [each[skip:] for each in read_by(2, shards, 2, 3)]


def test_a_worker_opens_its_own_files_alone(tmp_path):
    shards = write_shards(tmp_path, [20, 20, 20, 20])
    every = read_by(2, shards, 4)
    for shard in shards[1::2]:
        shard.unlink()
    meeting = Meeting(2)
    meeting.barrier = threading.Barrier(1)
    meeting.told[1] = 0  # batches of the other, who is not there
    own = [parts for parts in every[0] if parts != [[]]]
    assert read(Worker(0, meeting), shards, 4) == own


def test_readers_share_the_budget_and_the_pool_and_have_orders_of_their_own(shards):
    for parts in Readers(Task(), shards, 3, alone()).epoch(OPTIONS, 0).batches:
        for inputs, labels in parts:
            longest = max(inputs["source"].shape[1], labels.shape[1])
            assert labels.shape[0] * longest <= OPTIONS.batch_tokens // 3
    assert OPTIONS.of_reader(0, 1) == OPTIONS
    first, second = (
        list(training_batches(shards, OPTIONS.of_reader(reader, 2), mark, 1, 0))
        for reader in range(2)
    )
    assert [numbers(batch) for batch in first] != [numbers(batch) for batch in second]


def test_one_reader_gives_whole_batches_as_before(shards):
    whole = [[numbers(batch)] for batch in training_batches(shards, OPTIONS, mark, 1, 2)]
    assert read(alone(), shards, 1, 2) == whole


@pytest.mark.parametrize(("epoch", "longest"), [(0, None), (1, 8)])
def test_the_length_of_an_epoch_is_exact(epoch, longest, shards):
    options = BatchOptions(batch_tokens=40, shuffle_pool=64, longest=longest)
    batches = training_batches(shards, options, mark, 7, epoch)
    assert epoch_length(shards, options, 7, epoch) == len(list(batches))


def test_count_is_that_of_the_reader_with_most(tmp_path):
    shards = write_shards(tmp_path, [10, 150])
    count = Readers(Task(), shards, 2, alone()).count_batches(OPTIONS)
    assert count == count_batches(shards[1:], OPTIONS.of_reader(1, 2))


@pytest.mark.parametrize(
    ("readers", "complaint"),
    [(3, "there are 2 workers.*multiple of 2"), (4, "has 3 record files.*raise data.shards")],
)
def test_readers_that_cannot_be_dealt_are_refused(readers, complaint, shards):
    with pytest.raises(UserError, match=complaint):
        Readers(Task(), shards, readers, Worker(0, Meeting(2)))
