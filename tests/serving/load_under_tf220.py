"""Answers requests from a SavedModel through a v1 Session, as TensorFlow Serving does.

Run by the Python of an environment with the server's own release, TensorFlow 2.20.0 and
TensorFlow Text 2.20.1, in a process of its own:

    python load_under_tf220.py SAVED_MODEL_DIR < requests.json > responses.json

Requests and responses are lists. A request is `{"signature": NAME, "inputs": {NAME: values}}`,
a response `{NAME: values}`. Strings are in base64, since those of pictures are no text.
"""

import base64
import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers its operations


def answer(session, signature, inputs):
    """Run one signature; nested lists in, nested lists out."""
    feeds = {
        tensor.name: as_array(inputs[name], tf.as_dtype(tensor.dtype))
        for name, tensor in signature.inputs.items()
    }
    fetches = {name: tensor.name for name, tensor in signature.outputs.items()}
    outputs = session.run(fetches, feeds)
    return {name: as_lists(value) for name, value in outputs.items()}


def as_array(values, dtype):
    """Nested lists of numbers, or of strings in base64."""
    if dtype == tf.string:
        encoded = np.array(values, dtype=object)
        decoded = [base64.b64decode(value) for value in encoded.ravel()]
        return np.array(decoded, dtype=object).reshape(encoded.shape)
    return np.array(values, dtype=dtype.as_numpy_dtype)


def as_lists(array):
    """Nested lists, with strings in base64."""
    if array.dtype != object:
        return array.tolist()
    encoded = [base64.b64encode(value).decode() for value in array.ravel()]
    return np.array(encoded, dtype=object).reshape(array.shape).tolist()


def main():
    """Load, answer every request, print the version that did it and the responses."""
    requests = json.load(sys.stdin)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1])
        responses = [
            answer(session, meta_graph.signature_def[request["signature"]], request["inputs"])
            for request in requests
        ]
    versions = {"tensorflow": tf.__version__, "text": tensorflow_text.__version__}
    json.dump({**versions, "responses": responses}, sys.stdout)


if __name__ == "__main__":
    main()
