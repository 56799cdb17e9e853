import numpy as np

from models.initializers import uniform


def test_values_fill_the_range_on_both_sides():
    values = np.array(uniform(0.3)((1000,)))
    assert -0.3 <= values.min() < -0.29 and 0.29 < values.max() <= 0.3
    assert abs(values.mean()) < 0.02


def test_two_initializers_differ():
    assert (np.array(uniform(0.1)((5,))) != np.array(uniform(0.1)((5,)))).all()
