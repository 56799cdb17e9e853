"""Regress: one number for each example."""

from collections.abc import Mapping

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import regression_pb2

from serving.server.inference import ExampleMethod, Plan, shape_text, type_name
from serving.server.status import invalid_argument

_INPUTS = "inputs"
_OUTPUTS = "outputs"


class Regression(ExampleMethod):
    """Regress."""

    title = "Regress"
    method_name = "tensorflow/serving/regress"
    kind = "regression"
    field = "regression_result"

    def plan(self, signature: meta_graph_pb2.SignatureDef) -> Plan:
        """Find the examples and the numbers."""
        for tensors, word in ((signature.inputs, "input"), (signature.outputs, "output")):
            if len(tensors) != 1:
                raise invalid_argument(f"Expected one {word} Tensor.")
        for alias, tensors in ((_INPUTS, signature.inputs), (_OUTPUTS, signature.outputs)):
            if alias not in tensors:
                raise invalid_argument(f"No regression {alias} found in SignatureDef: {signature}")
        return Plan(signature.inputs[_INPUTS].name, [signature.outputs[_OUTPUTS].name])

    def result(
        self,
        signature: meta_graph_pb2.SignatureDef,
        values: Mapping[str, np.ndarray],
        examples: int,
    ) -> regression_pb2.RegressionResult:
        """Take one number an example."""
        array = values[signature.outputs[_OUTPUTS].name]  # [B] or [B, 1]
        if not (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
            raise invalid_argument(
                "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but "
                f"got {shape_text(array)}"
            )
        if array.shape[0] != examples:
            raise invalid_argument(
                f"Input batch size did not match output batch size: {examples} vs. {array.shape[0]}"
            )
        if array.dtype != np.float32:
            # Two spaces, as in the real server.
            raise invalid_argument(f"Expected output Tensor of DT_FLOAT.  Got: {type_name(array)}")
        result = regression_pb2.RegressionResult()
        for value in array.ravel().tolist():
            result.regressions.add(value=value)
        return result
