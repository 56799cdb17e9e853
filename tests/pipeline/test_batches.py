"""Batches: what is in them, in which order, and what it costs in pads."""

import numpy as np
import pytest

from models.special_ids import BEGIN_ID, END_ID, PAD_ID
from models.tokenizers import with_begin, with_end
from pipeline.batch_plan import BatchOptions, plan_batches
from pipeline.batches import (
    Epochs,
    count_batches,
    read_pairs,
    training_batches,
    validation_batches,
)
from pipeline.prepare.records import encode_example, frame

OPTIONS = BatchOptions(batch_tokens=128, shuffle_pool=64)


def mark(source, target):
    """As translation has it."""
    return {"source": with_end(source), "target": with_begin(target)}, with_end(target)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Three record files with 200 pairs of lengths 1 to 20, each pair different."""
    generator = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("records")
    paths = [folder / f"train-{index:05d}-of-00003.tfrecord" for index in range(3)]
    files = [path.open("wb") for path in paths]
    for number in range(200):
        length = int(generator.integers(1, 20))
        source = [4 + number] + [4] * (length - 1)
        target = [4 + number] + [5] * max(length + int(generator.integers(-1, 2)) - 1, 0)
        example = encode_example(source, target, b"s%d" % number, b"t%d" % number, b"id")
        files[number % 3].write(frame(example))
    for file in files:
        file.close()
    return paths


def rows(batches):
    """Every row of every batch: source, decoder input and labels without pads."""
    found = []
    for inputs, labels in batches:
        parts = (inputs["source"], inputs["target"], labels)
        for source, target, label in zip(*(part.numpy() for part in parts), strict=True):
            found.append(tuple(tuple(part[part != PAD_ID]) for part in (source, target, label)))
    return found


def as_lists(batches):
    return [[part.numpy().tolist() for part in (x["source"], x["target"], y)] for x, y in batches]


def test_every_pair_once_with_its_marks(shards):
    found = rows(training_batches(shards, OPTIONS, mark, seed=1, epoch=0))
    assert sorted(row[0][0] for row in found) == list(range(4, 204))
    for source, target, label in found:
        assert source[-1] == END_ID and source[0] == label[0]
        assert target[0] == BEGIN_ID and label[-1] == END_ID
        assert target[1:] == label[:-1]


def test_budget_is_kept(shards):
    for inputs, labels in training_batches(shards, OPTIONS, mark, seed=1, epoch=0):
        longest = max(inputs["source"].shape[1], labels.shape[1])
        assert labels.shape[0] * longest <= OPTIONS.batch_tokens


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own(shards):
    options = BatchOptions(batch_tokens=8, shuffle_pool=64)
    batches = list(training_batches(shards, options, mark, seed=1, epoch=0))
    assert sum(labels.shape[0] for _, labels in batches) == 200
    for inputs, labels in batches:
        longest = max(inputs["source"].shape[1], labels.shape[1])
        assert longest * labels.shape[0] <= 8 or labels.shape[0] == 1


def test_pads_are_few(shards):
    options = BatchOptions(batch_tokens=128, shuffle_pool=1000)
    real = total = 0
    for _, labels in training_batches(shards, options, mark, seed=1, epoch=0):
        real += int(np.count_nonzero(labels))
        total += labels.shape[0] * labels.shape[1]
    assert real / total > 0.85


def test_order_is_a_function_of_seed_and_epoch(shards):
    def order(seed, epoch):
        return as_lists(training_batches(shards, OPTIONS, mark, seed, epoch))

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


@pytest.mark.parametrize("skip", [1, 7, 1000])
def test_skipping_gives_the_rest(shards, skip):
    whole = as_lists(training_batches(shards, OPTIONS, mark, 1, 3))
    assert as_lists(training_batches(shards, OPTIONS, mark, 1, 3, skip=skip)) == whole[skip:]


def test_fixed_shapes_are_few_and_lose_nothing(shards):
    options = BatchOptions(batch_tokens=128, shuffle_pool=1000, fixed_shapes=True)
    shapes = set()
    found = []
    for inputs, labels in training_batches(shards, options, mark, seed=1, epoch=0):
        assert inputs["source"].shape[1] % 8 == 0 and labels.shape[1] % 8 == 0
        longest = max(inputs["source"].shape[1], labels.shape[1])
        assert labels.shape[0] == max(128 // longest, 1)
        shapes.add((*inputs["source"].shape, labels.shape[1]))
        found += [row for row in rows([(inputs, labels)]) if row[2]]
    assert len(shapes) <= 9
    assert sorted(row[0][0] for row in found) == list(range(4, 204))


def test_epochs_are_traced_once_and_come_as_one_alone(shards):
    traced = []

    def counted(*given):
        traced.append(given)
        return mark(*given)

    epochs = Epochs(shards, OPTIONS, counted, seed=1)
    found = [as_lists(epochs.batches(epoch, skip=epoch)) for epoch in range(3)]
    assert len(traced) == 1
    assert found == [as_lists(training_batches(shards, OPTIONS, mark, 1, e, e)) for e in range(3)]


def test_validation_batches_hold_every_pair_and_never_change(shards):
    first = as_lists(validation_batches(shards, OPTIONS, mark))
    assert first == as_lists(validation_batches(shards, OPTIONS, mark))
    assert len(rows(validation_batches(shards, OPTIONS, mark))) == 200


def test_count_is_that_of_an_epoch(shards):
    options = BatchOptions(batch_tokens=128, shuffle_pool=1000)
    assert count_batches(shards, options) == len(list(validation_batches(shards, options, mark)))


def test_pairs_come_in_the_order_of_the_records(shards):
    ids, target_ids, sources, targets, pictures = read_pairs(shards[:1])
    assert not pictures
    assert sources == [f"s{number}" for number in range(0, 200, 3)]
    assert targets[0] == "t0"
    assert ids[0][0] == target_ids[0][0] == 4
    assert read_pairs(shards, 5).sources == sources[:5]


def test_no_shards_give_no_pairs():
    assert read_pairs([]) == ([], [], [], [], [])


def brute_force_cut(costs, budget):
    """Batches of a sorted pool, pair by pair."""
    batches, batch, longest = [], [], 0
    for place, cost in enumerate(costs):
        if batch and max(longest, cost) * (len(batch) + 1) > budget:
            batches.append((batch[0], place))
            batch, longest = [], 0
        batch.append(place)
        longest = max(longest, cost)
    return [*batches, (batch[0], len(costs))]


@pytest.mark.parametrize("pairs", [1, 2, 37, 500])
@pytest.mark.parametrize("budget", [1, 30, 256])
def test_plan_cuts_as_pair_by_pair(pairs, budget):
    lengths = np.random.default_rng(pairs).integers(1, 40, (pairs, 2))
    order, batches = plan_batches(lengths, BatchOptions(budget, 64), None)
    assert sorted(order) == list(range(pairs))
    assert (np.diff(lengths[order][:, 1]) >= 0).all()
    costs = lengths[order].max(1).tolist()
    assert batches.tolist() == [list(batch) for batch in brute_force_cut(costs, budget)]


def test_plan_of_nothing_is_empty():
    order, batches = plan_batches(np.zeros([0, 2], np.int64), BatchOptions(8, 8), (1, 2))
    assert order.shape == (0,) and batches.shape == (0, 2)
