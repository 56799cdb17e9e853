import pickle
import random

import numpy as np

from pipeline.prepare.report import FIRST_LINES, Report, ShardFacts, SideStatistics, merge


def part(number):
    report = Report()
    report.tallies[0, "train"].pairs_in = 10
    for line in range(10 * number, 10 * number + number):
        report.drop(0, "train", "empty", line)
    report.statistics["train", "source"] = SideStatistics(
        lengths=np.arange(number), pieces=np.arange(2 * number)
    )
    report.shards["train", f"shard {number}"] = ShardFacts(1, 2, "hash")
    report.problems |= {"mend it"} if number == 3 else set()
    return report


def test_parts_add_up_in_any_order_and_grouping():
    parts = [part(number) for number in range(1, 6)]
    whole = merge(parts)
    shuffled = random.Random(1).sample([part(number) for number in range(1, 6)], 5)
    other = merge([merge(shuffled[:2]), merge(shuffled[2:]), merge([])])
    for report in (whole, other):
        tally = report.tallies[0, "train"]
        assert tally.pairs_in == 50
        assert tally.dropped["empty"].pairs == 15
        assert tally.dropped["empty"].first_lines == [10, 20, 21, 30, 31]
        assert report.statistics["train", "source"].lengths.tolist() == [0, 4, 6, 6, 4]
        assert len(report.shards) == 5
        assert report.problems == {"mend it"}


def test_adding_up_leaves_the_parts_alone():
    parts = [part(number) for number in range(1, 4)]
    before = pickle.dumps(parts)
    merge(parts)
    assert pickle.dumps(parts) == before


def test_first_lines_are_few():
    report = Report()
    for line in range(1, 100):
        report.drop(0, "train", "empty", line)
    assert report.tallies[0, "train"].dropped["empty"].first_lines == list(
        range(1, FIRST_LINES + 1)
    )


def test_first_lines_are_the_first_in_whatever_order_they_come():
    report = Report()
    for line in (40, 7, 99, 3, 58, 21, 2, 75):
        report.drop(0, "train", "duplicate", line)
    drops = report.tallies[0, "train"].dropped["duplicate"]
    assert (drops.pairs, drops.first_lines) == (8, [2, 3, 7, 21, 40])


def test_counters_are_the_tallies_of_all_inputs():
    report = Report()
    for index in (0, 1):
        report.tallies[index, "valid"].pairs_in = 5
        report.tallies[index, "valid"].pairs_out = 4
        report.drop(index, "valid", "empty", 1)
    assert report.counters() == {
        "valid in": 10,
        "valid out": 8,
        "valid truncated": 0,
        "valid empty": 2,
    }
