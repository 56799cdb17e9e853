"""Number formats and seeds of the tests of the models."""

import keras
import pytest


@pytest.fixture(autouse=True, scope="module")
def seeded():
    """Weights and dropout that do not differ from run to run.

    Once a module, since seeding empties TensorFlow's caches of kernels: compiled searches would
    start anew with each test, and SentencePiece models made before it would be gone.
    """
    keras.utils.set_random_seed(1)


@pytest.fixture
def float64():
    """Layers made in the test compute in double precision."""
    yield from _policy("float64")


@pytest.fixture
def mixed_bfloat16():
    """Layers made in the test compute in bfloat16 and keep float32 weights."""
    yield from _policy("mixed_bfloat16")


@pytest.fixture
def mixed_float16():
    """Layers made in the test compute in float16 and keep float32 weights."""
    yield from _policy("mixed_float16")


def _policy(name):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    yield
    keras.config.set_dtype_policy(before)
