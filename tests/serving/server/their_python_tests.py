"""Runs TensorFlow Serving's own test of its server, in a process of its own.

    python their_python_tests.py CHECKOUT ARGUMENT...

The published package lacks the modules of tests, which come from the checkout; the arguments are
those of the test, names of cases and flags.
"""

import pathlib
import runpy
import sys

import tensorflow_serving

TEST = "tensorflow_serving/model_servers/tensorflow_model_server_test.py"

if __name__ == "__main__":
    checkout = pathlib.Path(sys.argv[1])
    tensorflow_serving.__path__.append(str(checkout / "tensorflow_serving"))
    sys.argv = [str(checkout / TEST), *sys.argv[2:]]
    runpy.run_path(sys.argv[0], run_name="__main__")
