"""Batches made inside the exported graph: any server then runs requests of a signature together.

The embedded server and the real one need no flag for it. Two traps lie there. Queues are shared by
name, so each signature's has a name of its own; and a request that fails inside fails all that run
with it, so inputs are checked before they queue.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Outputs = dict[str, tf.Tensor]

# Rows of a request, which is split into batches.
_LONGEST_REQUEST = 1 << 20


@dataclasses.dataclass(frozen=True)
class GraphBatching:
    """How batches are made.

    Attributes:
        max_batch_size: Most rows of a batch. A request of more is run in parts.
        batch_timeout_micros: A batch waits so long for more requests, counted from its first; a
            lone caller waits as long for nothing.
        num_batch_threads: Batches of one signature that run at once.
        max_enqueued_batches: Batches of one signature that may wait; further requests are refused.
    """

    max_batch_size: int = 32
    batch_timeout_micros: int = 2000
    num_batch_threads: int = 2
    max_enqueued_batches: int = 100


def batched(
    function: Callable[..., Outputs],
    name: str,
    inputs: Sequence[tf.TensorSpec],
    rules: GraphBatching,
) -> Callable[..., Outputs]:
    """Let a function of a signature answer several requests by one run.

    Args:
        function: Takes the inputs by name; outputs have the batch first.
        name: Of the signature; no other of the model may have it.
        inputs: The inputs, batch first.
        rules: How batches are made.

    Returns:
        A function of the same inputs and outputs, to be traced by itself.
    """
    names = [spec.name for spec in inputs]
    core = tf.function(function).get_concrete_function(**{spec.name: spec for spec in inputs})
    shapes = {alias: output.shape for alias, output in core.structured_outputs.items()}

    def run_together(*tensors: tf.Tensor) -> Outputs:
        return core(**dict(zip(names, tensors, strict=True)))

    def call(**given: Any) -> Outputs:
        # One that does not fit is refused alone, before it stands in a queue beside others.
        fitting = [tf.ensure_shape(given[spec.name], spec.shape) for spec in inputs]
        with tf.name_scope(f"batched_{name}"):
            together = tf.nondifferentiable_batch_function(
                rules.num_batch_threads,
                _LONGEST_REQUEST,
                rules.batch_timeout_micros,
                # The last is the most rows of a batch. As all sizes are allowed, none is padded.
                allowed_batch_sizes=list(range(1, rules.max_batch_size + 1)),
                max_enqueued_batches=rules.max_enqueued_batches,
                autograph=False,
                enable_large_batch_splitting=True,
            )(run_together)
            outputs = together(*fitting)
        return {alias: tf.ensure_shape(outputs[alias], shapes[alias]) for alias in shapes}

    return call
