"""Answers requests from a SavedModel through a v1 Session, as TensorFlow Serving does.

Run by the Python of an environment with the server's own release, tensorflow-cpu 2.20.0 and
tensorflow-text 2.20.1, in a process of its own:

    python load_under_tf220.py SAVED_MODEL_DIR < requests.json > responses.json

Requests and responses are lists. A request is `{"signature": NAME, "inputs": {NAME: values}}`,
a response `{NAME: values}`; strings are UTF-8 text.
"""

import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers its operations


def answer(session, signature, inputs):
    """Run one signature; nested lists in, nested lists out."""
    feeds = {
        tensor.name: np.array(inputs[name], dtype=tf.as_dtype(tensor.dtype).as_numpy_dtype)
        for name, tensor in signature.inputs.items()
    }
    fetches = {name: tensor.name for name, tensor in signature.outputs.items()}
    outputs = session.run(fetches, feeds)
    return {name: as_text(value).tolist() for name, value in outputs.items()}


def as_text(array):
    """The array with byte strings decoded."""
    if array.dtype != object:
        return array
    return np.vectorize(lambda value: value.decode(), otypes=[object])(array)


def main():
    """Load, answer every request, print the version that did it and the responses."""
    requests = json.load(sys.stdin)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1])
        responses = [
            answer(session, meta_graph.signature_def[request["signature"]], request["inputs"])
            for request in requests
        ]
    json.dump({"tensorflow": tf.__version__, "responses": responses}, sys.stdout)


if __name__ == "__main__":
    main()
