"""Pairs that a plan leaves out."""

import numpy as np
import pytest

from pipeline.batch_plan import BatchOptions, admitted, plan_batches

LENGTHS = np.random.default_rng(0).integers(1, 30, [200, 2])


def test_pairs_are_admitted_by_their_longer_side():
    lengths = np.array([[3, 9], [9, 3], [4, 4], [5, 1]])
    assert admitted(lengths, 5).tolist() == [2, 3]
    assert admitted(lengths, None).tolist() == [0, 1, 2, 3]
    assert admitted(lengths, 2).tolist() == []


@pytest.mark.parametrize("seed", [None, (1, 2, 3)])
def test_a_plan_holds_what_is_admitted_once(seed):
    options = BatchOptions(64, 200, longest=12)
    order, batches = plan_batches(LENGTHS, options, seed)
    assert sorted(order) == admitted(LENGTHS, 12).tolist()
    assert sorted(end - start for start, end in batches) and (batches[:, 1] > batches[:, 0]).all()
    assert sum(end - start for start, end in batches) == len(order)
    again, _ = plan_batches(LENGTHS, options, seed)
    np.testing.assert_array_equal(order, again)
    if seed:
        assert (plan_batches(LENGTHS, options, (1, 2, 4))[0] != order).any()


def test_a_limit_that_admits_everything_changes_nothing():
    for limit in (None, 30):
        order, batches = plan_batches(LENGTHS, BatchOptions(64, 200, longest=limit), (5,))
        expected = plan_batches(LENGTHS, BatchOptions(64, 200), (5,))
        np.testing.assert_array_equal(order, expected[0])
        np.testing.assert_array_equal(batches, expected[1])


def test_a_pool_of_which_nothing_is_admitted_has_no_batch():
    order, batches = plan_batches(LENGTHS + 30, BatchOptions(64, 200, longest=12), (5,))
    assert not len(order) and batches.shape == (0, 2)


@pytest.mark.parametrize("seed", [None, (1, 2, 3)])
def test_pairs_of_a_group_follow_each_other(seed):
    groups = np.random.default_rng(1).integers(0, 40, 200) * 2**32
    options = BatchOptions(64, 200)
    order, batches = plan_batches(LENGTHS, options, seed, groups)
    assert sorted(order) == list(range(200))
    runs = groups[order]
    assert 1 + np.count_nonzero(np.diff(runs)) == len(set(runs))
    for start, end in batches:
        rows = LENGTHS[order[start:end]].max()
        assert end - start == 1 or rows * (end - start) <= 64
    assert sorted(index for start, end in batches for index in range(start, end)) == sorted(
        range(200)
    )
    if seed:
        others = plan_batches(LENGTHS, options, (1, 2, 4), groups)[0]
        assert (groups[others] != runs).any()
    else:
        assert runs.tolist() == sorted(groups)


def test_a_limit_leaves_out_of_groups_too():
    groups = np.arange(200) // 5
    order, _ = plan_batches(LENGTHS, BatchOptions(64, 200, longest=12), (5,), groups)
    assert sorted(order) == admitted(LENGTHS, 12).tolist()
