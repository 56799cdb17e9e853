"""States of recurrent layers: a structure a kind of cell, the hidden state first."""

from typing import Any, NamedTuple

import tensorflow as tf


class SimpleState(NamedTuple):
    """State of one simple recurrent layer."""

    hidden: tf.Tensor  # [..., H], compute dtype


class LSTMState(NamedTuple):
    """State of one LSTM layer of any kind; hidden is of P features where it is projected."""

    hidden: tf.Tensor  # [..., H or P], compute dtype
    memory: tf.Tensor  # [..., H], compute dtype


class GRUState(NamedTuple):
    """State of one GRU layer of any kind."""

    hidden: tf.Tensor  # [..., H], compute dtype


CellState = Any  # one of the above, or of a cell's own that has `hidden` as its first part
StackState = tuple[CellState, ...]  # one entry a layer, the lowest first
