"""Classify: a label, a score or both for each class of each example."""

from collections.abc import Mapping

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2

from serving.server.inference import ExampleMethod, Plan, shape_text, type_name
from serving.server.status import invalid_argument

_INPUTS = "inputs"
# In the order in which they are fetched, each with its type in memory and in messages.
_OUTPUTS = {"classes": (np.dtype(object), "DT_STRING"), "scores": (np.dtype("f4"), "DT_FLOAT")}


class Classification(ExampleMethod):
    """Classify."""

    title = "Classify"
    method_name = "tensorflow/serving/classify"
    kind = "classification"
    field = "classification_result"

    def plan(self, signature: meta_graph_pb2.SignatureDef) -> Plan:
        """Find the examples, and the classes or scores or both."""
        if len(signature.inputs) != 1:
            raise invalid_argument("Expected one input Tensor.")
        if len(signature.outputs) not in (1, 2):
            raise invalid_argument(
                f"Expected one or two output Tensors, found {len(signature.outputs)}"
            )
        if _INPUTS not in signature.inputs:
            raise invalid_argument(f"No classification inputs found in SignatureDef: {signature}")
        fetches = [
            signature.outputs[alias].name for alias in _OUTPUTS if alias in signature.outputs
        ]
        if not fetches:
            raise invalid_argument(
                "Expected classification signature outputs to contain at least one of "
                f'"classes" or "scores". Signature was: {signature}'
            )
        return Plan(signature.inputs[_INPUTS].name, fetches)

    def result(
        self,
        signature: meta_graph_pb2.SignatureDef,
        values: Mapping[str, np.ndarray],
        examples: int,
    ) -> classification_pb2.ClassificationResult:
        """Pair the labels and scores of each example."""
        found = {
            alias: values[signature.outputs[alias].name]  # [B, C]
            for alias in _OUTPUTS
            if alias in signature.outputs
        }
        for alias, array in found.items():
            _check(alias, array, examples)
        widths = [array.shape[1] for array in found.values()]
        if len(set(widths)) > 1:
            raise invalid_argument(
                "Tensors class and score should match in dim_size(1). Got "
                f"{widths[0]} vs. {widths[1]}"
            )
        result = classification_pb2.ClassificationResult()
        for row in range(examples):
            classes = result.classifications.add().classes
            for column in range(widths[0]):
                one = classes.add()
                if "classes" in found:
                    one.label = found["classes"][row, column].decode("utf-8")
                if "scores" in found:
                    one.score = found["scores"][row, column]
        return result


def _check(alias: str, array: np.ndarray, examples: int) -> None:
    if array.ndim != 2:
        raise invalid_argument(
            f"Expected Tensor shape: [batch_size num_classes] but got {shape_text(array)}"
        )
    dtype, name = _OUTPUTS[alias]
    if array.dtype != dtype:
        raise invalid_argument(f"Expected {alias} Tensor of {name}. Got: {type_name(array)}")
    if array.shape[0] != examples:
        raise invalid_argument(
            f"Expected {alias} output batch size of {examples}. Got: {array.shape[0]}"
        )
