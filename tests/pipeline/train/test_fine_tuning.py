"""Variables that learn at a share of the rate."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.train.fine_tuning import slow_down


@pytest.mark.parametrize("kind", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_a_share_of_the_rate_is_a_rate(kind):
    rates, shared = (0.1, 0.02), kind(0.1)
    slow, fast = (keras.Variable([1.0, -2.0], name=name) for name in ("slow", "fast"))
    slow_down(shared, [slow], 0.2)
    shared.build([slow, fast])
    alone = [(kind(rate), keras.Variable([1.0, -2.0])) for rate in rates]
    apply = tf.function(shared.apply)
    for step in range(3):
        gradient = tf.constant([0.5, -0.1 * step])
        apply([gradient, gradient], [slow.value, fast.value])
        for optimizer, variable in alone:
            optimizer.apply([gradient], [variable])
    for found, (_, wanted) in zip((fast, slow), alone, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
    assert np.abs(slow.numpy() - fast.numpy()).min() > 1e-3
