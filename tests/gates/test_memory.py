"""Learning gate: the Neural Turing Machine copies sequences longer than those it was trained on."""

import pytest

from benchmarks.copy_task import make_lstm, make_ntm, train, wrong_bits

SEED, STEPS = 1, 600


@pytest.mark.gate
def test_the_turing_machine_copies_what_is_twice_as_long_and_an_lstm_of_its_size_does_not():
    ntm = make_ntm(SEED)
    train(ntm, STEPS, SEED)
    lstm = make_lstm(SEED, ntm.count_params())
    train(lstm, STEPS, SEED)
    assert lstm.count_params() >= ntm.count_params()
    assert wrong_bits(ntm, 10) < 0.02
    assert wrong_bits(ntm, 20) < 0.05
    assert wrong_bits(lstm, 20) > 0.15
