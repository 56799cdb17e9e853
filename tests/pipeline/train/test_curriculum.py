"""Which lengths an epoch admits."""

import math

import pytest

from pipeline.train.curriculum import Curriculum


def test_linear_shares():
    curriculum = Curriculum("linear", start=0.2, epochs=4)
    shares = [curriculum.share(epoch) for epoch in range(6)]
    assert shares == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_root_shares():
    """Platanios et al. 2019, equation 7."""
    curriculum = Curriculum("root", start=0.1, epochs=10)
    expected = [math.sqrt(t * (1 - 0.1**2) / 10 + 0.1**2) for t in range(11)]
    assert [curriculum.share(epoch) for epoch in range(11)] == pytest.approx(expected)
    assert curriculum.share(99) == 1.0


@pytest.mark.parametrize("growth", ["linear", "root"])
def test_lengths_grow_from_the_shortest_to_the_longest(growth):
    curriculum = Curriculum(growth, start=0.01, epochs=7)
    admitted = [curriculum.longest(epoch, shortest=3, longest=20) for epoch in range(9)]
    assert admitted == sorted(admitted)
    assert admitted[0] == 3 and admitted[7:] == [20, 20]


def test_lengths_that_are_all_equal_are_all_admitted():
    assert Curriculum().longest(0, shortest=5, longest=5) == 5
