"""From the outputs of a model to the JSON of a response.

Indentation, order of brackets and line breaks are those of the writer that TensorFlow Serving
uses, so that answers can be compared byte by byte.
"""

import base64
import re
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, regression_pb2

from serving.server.json_request import Layout
from serving.server.json_values import decimals
from serving.server.status import invalid_argument

# An output with this at the end of its name is binary; other strings go out as they are.
_BYTES_SUFFIX = "_bytes"
_INTEGERS = (np.int32, np.int16, np.int8, np.uint8, np.int64, np.uint32, np.uint64)
_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_SHORT_ESCAPES = {
    0x08: rb"\b",
    0x09: rb"\t",
    0x0A: rb"\n",
    0x0C: rb"\f",
    0x0D: rb"\r",
    0x22: rb"\"",
    0x5C: rb"\\",
}


def write_predict(outputs: Mapping[str, np.ndarray], layout: Layout) -> bytes:
    """Write a predict response.

    Args:
        outputs: Tensors by alias; strings as object arrays of bytes.
        layout: That of the request.

    Returns:
        The JSON. A string that is not valid UTF-8 stands in it as it came from the model.

    Raises:
        ServingError: If the outputs cannot be laid out so, or a type has no JSON form.
    """
    if not outputs:
        raise invalid_argument("Cannot convert empty tensor map to JSON")
    write = _rows if layout is Layout.ROW else _columns
    return write({name: outputs[name] for name in sorted(outputs)})


def write_classification(result: classification_pb2.ClassificationResult) -> bytes:
    """Write a classify response: a list of pairs of label and score an example.

    Raises:
        ServingError: If there is no example.
    """
    if not result.classifications:
        raise invalid_argument("Cannot convert empty ClassificationResults to JSON")
    rows = []
    for one in result.classifications:
        scores = decimals(np.array([entry.score for entry in one.classes], dtype=np.float32))
        pairs = [
            b"[" + _string(entry.label.encode()) + b", " + score + b"]"
            for entry, score in zip(one.classes, scores, strict=True)
        ]
        rows.append(b"[" + b", ".join(pairs) + b"]")
    return _document(b"results", b"[" + b", ".join(rows) + b"\n    ]")


def write_regression(result: regression_pb2.RegressionResult) -> bytes:
    """Write a regress response: a list with a number an example.

    Raises:
        ServingError: If there is no example.
    """
    if not result.regressions:
        raise invalid_argument("Cannot convert empty RegressionResults to JSON")
    values = np.array([one.value for one in result.regressions], dtype=np.float32)
    return _document(b"results", b"[" + b", ".join(decimals(values)) + b"]")


def write_error(message: str) -> bytes:
    """Write the body of a response that is an error."""
    return b'{\n    "error": ' + _string(message.encode("utf-8", "replace")) + b"\n}"


def _rows(outputs: dict[str, np.ndarray]) -> bytes:
    size = _batch_size(outputs)
    named = len(outputs) > 1
    # The value of a row lies below the document, the list and, of several, the row's object.
    depth = 3 if named else 2
    columns = []
    for name, array in outputs.items():
        leaves = iter(_leaves(name, array, depth + array.ndim - 1))
        columns.append([_inline(leaves, array.shape[1:]) for _ in range(size)])
    if not named:
        line = b", ".join(columns[0])
        return _document(b"predictions", b"[" + line + b"\n    ]" if size else b"[]")
    keys = [_string(name.encode()) + b": " for name in outputs]
    rows = [
        b"{"
        + b",".join(b"\n" + _pad(3) + key + value for key, value in zip(keys, row, strict=True))
        + b"\n"
        + _pad(2)
        + b"}"
        for row in zip(*columns, strict=True)
    ]
    return _document(b"predictions", _block(rows, 1))


def _batch_size(outputs: dict[str, np.ndarray]) -> int:
    size = -1
    for name, array in outputs.items():
        if array.ndim == 0:
            raise invalid_argument(f"Tensor name: {name} has no shape information ")
        if size >= 0 and array.shape[0] != size:
            raise invalid_argument(
                f"Tensor name: {name} has inconsistent batch size: {array.shape[0]} "
                f"expecting: {size}"
            )
        size = array.shape[0]
    return size


def _columns(outputs: dict[str, np.ndarray]) -> bytes:
    named = len(outputs) > 1
    depth = 2 if named else 1
    values = []
    for name, array in outputs.items():
        leaves = iter(_leaves(name, array, depth + array.ndim))
        values.append(_nested(leaves, array.shape, depth))
    if not named:
        return _document(b"outputs", values[0])
    members = [
        b"\n" + _pad(2) + _string(name.encode()) + b": " + value
        for name, value in zip(outputs, values, strict=True)
    ]
    return _document(b"outputs", b"{" + b",".join(members) + b"\n" + _pad(1) + b"}")


def _document(key: bytes, value: bytes) -> bytes:
    return b'{\n    "' + key + b'": ' + value + b"\n}"


def _inline(leaves: Iterator[bytes], shape: tuple[int, ...]) -> bytes:
    """Nested lists on one line."""
    if not shape:
        return next(leaves)
    return b"[" + b", ".join(_inline(leaves, shape[1:]) for _ in range(shape[0])) + b"]"


def _nested(leaves: Iterator[bytes], shape: tuple[int, ...], depth: int) -> bytes:
    """Nested lists with an element a line."""
    if not shape:
        return next(leaves)
    return _block([_nested(leaves, shape[1:], depth + 1) for _ in range(shape[0])], depth)


def _block(items: list[bytes], depth: int) -> bytes:
    if not items:
        return b"[]"
    line = b"\n" + _pad(depth + 1)
    return b"[" + line + (b"," + line).join(items) + b"\n" + _pad(depth) + b"]"


def _pad(depth: int) -> bytes:
    return b" " * (4 * depth)


def _leaves(name: str, array: np.ndarray, depth: int) -> list[bytes]:
    """The elements as JSON, in row-major order."""
    if array.dtype in (np.float32, np.float64):
        return decimals(array)
    values = array.ravel().tolist()
    if array.dtype == object:
        if name.endswith(_BYTES_SUFFIX):
            return [_base64_object(value, depth) for value in values]
        return [_string(value) for value in values]
    if array.dtype == bool:
        return [b"true" if value else b"false" for value in values]
    if array.dtype in _INTEGERS:
        return [b"%d" % value for value in values]
    raise invalid_argument(f"Failed to write JSON value for tensor type: {_type_name(array.dtype)}")


def _type_name(dtype: np.dtype) -> str:
    name = tf.dtypes.as_dtype(dtype).name
    return "half" if name == "float16" else name


def _base64_object(value: bytes, depth: int) -> bytes:
    member = b'"b64": "' + base64.b64encode(value) + b'"'
    return b"{\n" + _pad(depth + 1) + member + b"\n" + _pad(depth) + b"}"


def _string(value: bytes) -> bytes:
    return b'"' + _ESCAPED.sub(_escape, value) + b'"'


def _escape(match: re.Match) -> bytes:
    code = match[0][0]
    return _SHORT_ESCAPES.get(code) or b"\\u%04X" % code
