"""Our messages against the published ones."""

import pytest
from google.protobuf import descriptor, wrappers_pb2
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2
from tensorflow_serving.apis import get_model_status_pb2, model_pb2, predict_pb2, status_pb2

from serving import wire

PUBLISHED = {
    "Dim": tensor_shape_pb2.TensorShapeProto.Dim,
    "TensorShape": tensor_shape_pb2.TensorShapeProto,
    "Tensor": tensor_pb2.TensorProto,
    "Int64Value": wrappers_pb2.Int64Value,
    "ModelSpec": model_pb2.ModelSpec,
    "PredictRequest": predict_pb2.PredictRequest,
    "PredictResponse": predict_pb2.PredictResponse,
    "Status": status_pb2.StatusProto,
    "ModelVersionStatus": get_model_status_pb2.ModelVersionStatus,
    "GetModelStatusRequest": get_model_status_pb2.GetModelStatusRequest,
    "GetModelStatusResponse": get_model_status_pb2.GetModelStatusResponse,
}
# On the wire an enumeration is an int32.
INT32 = descriptor.FieldDescriptor.TYPE_INT32
ENUM = descriptor.FieldDescriptor.TYPE_ENUM


def kind(field):
    return INT32 if field.type == ENUM else field.type


@pytest.mark.parametrize("name", wire._MESSAGES)
def test_every_field_is_the_published_one(name):
    published = PUBLISHED[name].DESCRIPTOR.fields_by_name
    for field in wire._class(name).DESCRIPTOR.fields:
        theirs = published[field.name]
        assert (field.number, kind(field)) == (theirs.number, kind(theirs))
        assert field.is_repeated == theirs.is_repeated
        assert field.is_packed == theirs.is_packed


def test_a_request_reads_as_the_published_message():
    request = wire.PredictRequest()
    request.model_spec.name = "translation"
    request.model_spec.signature_name = "align"
    wire.write_column(["grün".encode(), b""], request.inputs["text"])
    published = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    assert published.model_spec.name == "translation"
    assert published.model_spec.signature_name == "align"
    tensor = published.inputs["text"]
    assert tensor.dtype == 7
    assert [dim.size for dim in tensor.tensor_shape.dim] == [2]
    assert list(tensor.string_val) == ["grün".encode(), b""]


def response(**tensors):
    published = predict_pb2.PredictResponse()
    for name, (dtype, shape, field, values) in tensors.items():
        tensor = published.outputs[name]
        tensor.dtype = dtype
        for size in shape:
            tensor.tensor_shape.dim.add().size = size
        if field == "tensor_content":
            tensor.tensor_content = values
        else:
            getattr(tensor, field).extend(values)
    ours = wire.PredictResponse.FromString(published.SerializeToString())
    return {name: wire.read_tensor(tensor) for name, tensor in ours.outputs.items()}


def test_a_published_response_is_read_as_nested_lists():
    assert response(
        strings=(7, [2, 2], "string_val", ["é".encode(), b"b", b"\xff", b""]),
        singles=(1, [1, 2, 1], "float_val", [0.5, -1.0]),
        packed=(1, [2], "tensor_content", bytes.fromhex("0000003f000080bf")),
        integers=(3, [2], "int_val", [-1, 2]),
        longs=(9, [1], "int64_val", [1 << 40]),
        none=(7, [0], "string_val", []),
        hollow=(7, [2, 0], "string_val", []),
    ) == {
        "strings": [["é", "b"], ["\ufffd", ""]],
        "singles": [[[0.5], [-1.0]]],
        "packed": [0.5, -1.0],
        "integers": [-1, 2],
        "longs": [1 << 40],
        "none": [],
        "hollow": [[], []],
    }


@pytest.mark.parametrize(
    "tensor", [(7, [2], "string_val", [b"a"]), (8, [1], "scomplex_val", [1.0, 2.0])]
)
def test_a_tensor_that_cannot_be_read(tensor):
    with pytest.raises(ValueError):
        response(x=tensor)
