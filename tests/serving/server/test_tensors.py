import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from serving.server.tensors import to_array, to_proto

NUMERIC = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


def arrays():
    for name in NUMERIC:
        yield np.array([[0, 1, 2], [3, 4, 5]]).astype(name)
    yield np.array([1.5, -2.0], tf.bfloat16.as_numpy_dtype)
    yield np.array([1 + 2j], np.complex64)
    yield np.array([[b"a", b""], [b"\xff", b"long " * 100]], dtype=object)
    yield np.array(b"scalar", dtype=object)
    yield np.array(2.5, np.float32)
    yield np.zeros([0, 3], np.int64)


@pytest.mark.parametrize("array", arrays(), ids=lambda array: f"{array.dtype}{array.shape}")
def test_tensors_come_back_as_they_went(array):
    proto = tensor_pb2.TensorProto()
    to_proto(array, proto)
    assert not proto.tensor_content
    for back in (to_array(proto), tf.make_ndarray(proto)):
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def test_packed_content_is_read():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    proto = tf.make_tensor_proto(values)
    assert proto.tensor_content
    np.testing.assert_array_equal(to_array(proto), values)


@pytest.mark.parametrize(
    ("values", "size", "expected"),
    [
        ([b"a", b"b"], 3, [b"a", b"b", b"b"]),
        ([], 2, [b"", b""]),
        ([b"a", b"b"], 1, [b"a"]),
    ],
)
def test_strings_fill_the_shape(values, size, expected):
    proto = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=values)
    proto.tensor_shape.dim.add().size = size
    assert to_array(proto).tolist() == expected


def bad_protos():
    negative = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING)
    negative.tensor_shape.dim.add().size = -1
    yield "negative", negative
    two_negatives = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"a"])
    two_negatives.tensor_shape.dim.add().size = -1
    two_negatives.tensor_shape.dim.add().size = -1
    yield "two negatives", two_negatives
    short = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, tensor_content=b"abc")
    short.tensor_shape.dim.add().size = 1
    yield "short content", short
    huge = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[1.0])
    huge.tensor_shape.dim.add().size = 1 << 33
    yield "a few bytes for all the memory", huge
    yield "no type", tensor_pb2.TensorProto()
    yield "unheard-of type", tensor_pb2.TensorProto(dtype=99)


@pytest.mark.parametrize("proto", [pytest.param(p, id=name) for name, p in bad_protos()])
def test_what_does_not_fit_together_is_refused(proto):
    with pytest.raises(ValueError):
        to_array(proto)
