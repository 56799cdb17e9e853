"""Tensors on the wire and tensors in memory.

Requests may spell a tensor in any form that `TensorProto` allows. Responses use the typed
fields (`float_val`, `string_val`, ...), and `tensor_content` only where a flag asks for it, as
TensorFlow Serving does.
"""

import math

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

# A few bytes may ask for a tensor that one element fills: of so many elements at most, lest
# they ask for all the memory there is.
_MOST_FILLED = 1 << 24

# The typed field that holds the elements of each type.
_INTEGERS = (
    types_pb2.DT_INT32,
    types_pb2.DT_INT16,
    types_pb2.DT_INT8,
    types_pb2.DT_UINT16,
    types_pb2.DT_UINT8,
)
_TYPED_FIELDS = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_STRING: "string_val",
    types_pb2.DT_BOOL: "bool_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_UINT32: "uint32_val",
    types_pb2.DT_UINT64: "uint64_val",
    **dict.fromkeys(_INTEGERS, "int_val"),
}


def to_array(proto: tensor_pb2.TensorProto) -> np.ndarray:
    """Read a tensor from a request.

    Args:
        proto: Elements in the typed field or in `tensor_content`. A typed field may stop
            early: its last element then fills the rest.

    Returns:
        The tensor; strings as an object array of bytes.

    Raises:
        ValueError: If shape, type and elements do not fit together.
    """
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    size = math.prod(shape)
    if size > max(_MOST_FILLED, proto.ByteSize()):
        raise ValueError(f"{size} elements cannot be in {proto.ByteSize()} bytes")
    if proto.dtype == types_pb2.DT_STRING and not proto.tensor_content:
        # The form nearly every request has; the general way below costs ten times as much.
        if size == len(proto.string_val) and all(axis >= 0 for axis in shape):
            if not proto.tensor_shape.unknown_rank:
                return np.array(list(proto.string_val), dtype=object).reshape(shape)
    try:
        dtype = tf.dtypes.as_dtype(proto.dtype)
        value = tf.io.parse_tensor(proto.SerializeToString(), dtype).numpy()
        return np.asarray(value, dtype=dtype.as_numpy_dtype)
    except (TypeError, tf.errors.OpError) as error:
        raise ValueError(str(error)) from None


def to_proto(array: np.ndarray, proto: tensor_pb2.TensorProto) -> None:
    """Write a tensor into a response, in typed fields.

    Args:
        array: The tensor; strings as an object array of bytes.
        proto: An empty message to fill.
    """
    dtype = _write_head(array, proto)
    field = _TYPED_FIELDS.get(proto.dtype)
    if field is not None:
        getattr(proto, field).extend(array.ravel().tolist())
    elif dtype in (tf.float16, tf.bfloat16):
        proto.half_val.extend(array.view(np.uint16).ravel().tolist())
    else:
        proto.CopyFrom(tf.make_tensor_proto(array))


def to_content(array: np.ndarray, proto: tensor_pb2.TensorProto) -> None:
    """Write a tensor into a response, as bytes.

    Args:
        array: The tensor; strings as an object array of bytes.
        proto: An empty message to fill.
    """
    _write_head(array, proto)
    if array.dtype != object:
        proto.tensor_content = array.tobytes()
        return
    # The lengths of all strings, then all strings.
    strings = array.ravel().tolist()
    proto.tensor_content = b"".join([*(_varint(len(one)) for one in strings), *strings])


def _write_head(array: np.ndarray, proto: tensor_pb2.TensorProto) -> tf.DType:
    """Write type and shape, and return the type."""
    dtype = tf.dtypes.as_dtype(array.dtype if array.dtype != object else tf.string)
    proto.dtype = dtype.as_datatype_enum
    for size in array.shape:
        proto.tensor_shape.dim.add().size = size
    return dtype


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; all bytes but the last have the eighth set."""
    parts = []
    while number >= 1 << 7:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
