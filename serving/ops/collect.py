"""Lists the operations that TensorFlow Serving links, on standard output.

TensorFlow Serving links the core of the TensorFlow it is built from, and TensorFlow Text. The
Python packages of the same release register the same operations, so the list is read off
them, in an environment of their own:

    python3 -m venv serving-ops
    serving-ops/bin/pip install tensorflow-cpu==2.20.0 tensorflow-text==2.20.1
    serving-ops/bin/python serving/ops/collect.py > serving/ops/serving_ops.txt

Only operations with a CPU kernel are kept: the pinned image has no others, and TensorFlow's
own test operations fall away with them. Operations whose kernel calls back into Python, or
needs the XLA compiler, are dropped as well: the Python package has them, the server has not.

The file imports nothing of the project, so that it runs where the project is not installed.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402
from tensorflow.core.framework import op_def_pb2  # noqa: E402
from tensorflow.python.client import pywrap_tf_session  # noqa: E402
from tensorflow.python.framework import kernels  # noqa: E402

REWRITTEN_BEFORE_RUNNING = frozenset({"AccumulateNV2"})
"""No kernel of their own: a graph optimisation replaces them while the model loads."""

PYTHON_ONLY = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


def registered_operations() -> set[str]:
    """Names of all operations this process has registered."""
    buffer = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return {op.name for op in op_def_pb2.OpList.FromString(bytes(buffer)).op}


def operations_with_cpu_kernel() -> set[str]:
    """Names of the operations this process could run on a CPU."""
    listed = kernels.get_all_registered_kernels().kernel
    return {kernel.op for kernel in listed if kernel.device_type in ("CPU", "DEFAULT")}


def needs_xla(name: str) -> bool:
    """Whether an operation exists for the XLA compiler alone."""
    return name.lstrip("_").startswith("Xla")


def servable_operations() -> list[str]:
    """Names of the operations to list, sorted."""
    runnable = operations_with_cpu_kernel() | REWRITTEN_BEFORE_RUNNING
    kept = (registered_operations() & runnable) - PYTHON_ONLY
    return sorted(name for name in kept if not needs_xla(name))


def main() -> None:
    """Print the list under a heading that names the versions it was read off."""
    print(
        f"# Read off tensorflow {tf.__version__} and tensorflow-text "
        f"{tensorflow_text.__version__} by serving/ops/collect.py, which says how."
    )
    print("# Operations with a CPU kernel, a name a line.")
    sys.stdout.writelines(f"{name}\n" for name in servable_operations())


if __name__ == "__main__":
    main()
