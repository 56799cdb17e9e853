"""From single JSON values to the elements of tensors, by the type of the tensor."""

import base64
import binascii
import math
import re
from typing import TypeGuard

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from serving.server.json_values import Json, format_error, quoted, type_name
from serving.server.status import ServingError, invalid_argument

_BASE64 = "b64"

_FLOATS = (types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE)
# These share the 32-bit field on the wire, and wrap around when they leave it.
SMALL_INTEGERS = (
    types_pb2.DT_INT32,
    types_pb2.DT_INT16,
    types_pb2.DT_INT8,
    types_pb2.DT_UINT8,
)
_INT32 = (-(1 << 31), (1 << 31) - 1)
_INTEGERS = {
    **dict.fromkeys(SMALL_INTEGERS, _INT32),
    types_pb2.DT_INT64: (-(1 << 63), (1 << 63) - 1),
    types_pb2.DT_UINT32: (0, (1 << 32) - 1),
    types_pb2.DT_UINT64: (0, (1 << 64) - 1),
}


def is_base64(value: Json) -> TypeGuard[dict]:
    """Whether a value is `{"b64": "..."}`, a string of bytes."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(_BASE64), str)


def to_element(value: Json, dtype: int) -> bytes | bool | int | float:
    """Convert one value.

    Args:
        value: A JSON value that is no list.
        dtype: The `DataType` of the tensor.

    Returns:
        What NumPy takes for an element of that type; bytes for a string.

    Raises:
        ServingError: If the value is not of that type, or would lose precision.
    """
    if dtype == types_pb2.DT_STRING:
        return _string(value)
    if isinstance(value, dict):
        raise _type_error(value, dtype)
    if dtype in _FLOATS:
        return _float(value, dtype)
    if dtype == types_pb2.DT_BOOL:
        if not isinstance(value, bool):
            raise _type_error(value, dtype)
        return value
    if dtype in _INTEGERS:
        low, high = _INTEGERS[dtype]
        if type(value) is not int or not low <= value <= high:
            raise _type_error(value, dtype)
        return value
    raise ServingError(
        grpc.StatusCode.UNIMPLEMENTED,
        f"Conversion of JSON Value: {quoted(value)} to type: {_type(dtype)}",
    )


def _string(value: Json) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    if not isinstance(value, dict):
        raise _type_error(value, types_pb2.DT_STRING)
    if not is_base64(value):
        raise format_error(value, "not formatted correctly for base64 data")
    return _decode_base64(value[_BASE64])


def _decode_base64(text: str) -> bytes:
    """Decode the standard alphabet; padding may be missing and white space may be there."""
    packed = re.sub(r"[ \t\r\n\f\v]", "", text)
    stripped = packed.rstrip("=")
    padding = len(packed) - len(stripped)
    try:
        if padding and (padding > 2 or len(packed) % 4):
            raise binascii.Error("wrong padding")
        padded = stripped + "=" * (-len(stripped) % 4)
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_argument("Unable to base64 decode") from None


def _float(value: Json, dtype: int) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _type_error(value, dtype)
    single = dtype == types_pb2.DT_FLOAT
    info = np.finfo(np.float32) if single else np.finfo(np.float64)
    if isinstance(value, int):
        # Whole numbers must survive the conversion; others may be rounded.
        fits = abs(value) <= (1 << (info.nmant + 1)) - 1
    else:
        fits = not math.isfinite(value) or abs(value) <= float(info.max)
    if not fits:
        target = "float" if single else "double"
        raise invalid_argument(
            f"Cannot convert JSON value: {quoted(value)} to {target} without loss of precision."
        )
    return value


def _type(dtype: int) -> str:
    """The name that TensorFlow's C++ code has for a type."""
    name = tf.dtypes.as_dtype(dtype).name
    return {"float32": "float", "float64": "double", "float16": "half"}.get(name, name)


def _type_error(value: Json, dtype: int) -> ServingError:
    return invalid_argument(
        f"JSON Value: {quoted(value)} Type: {type_name(value)} is not of expected type: "
        f"{_type(dtype)}"
    )
