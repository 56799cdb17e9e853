"""The operations that the pinned TensorFlow Serving can run on a CPU.

`serving_ops.txt` lists them, a name a line; `collect.py` builds it and says how.
"""

import functools
import importlib.resources

SERVING_RELEASE = "2.20.0"


@functools.cache
def serving_ops() -> frozenset[str]:
    """Names of the operations with a CPU kernel in TensorFlow Serving `SERVING_RELEASE`."""
    text = importlib.resources.files(__name__).joinpath("serving_ops.txt").read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))
