"""Requests made at random: what is right comes back right, what is wrong is refused in words.

A generator with a seed makes them, so that a case that fails can be made again.
"""

import json
import random

import grpc
import numpy as np
import pytest
import rapidjson
from tensorflow_serving.apis import predict_pb2

from serving.server.metrics import Metrics
from serving.server.models import Models
from serving.server.rest_api import RestApi
from serving.server.tensors import to_array, to_proto

REST_CASES = 4000
ROUND_TRIPS = 1000
GRPC_CASES = 2000
TENSORS = 1000
REFUSALS = {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"}
DTYPES = (np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, np.int16, np.bool_)

BODIES = [
    b'{"signature_name": "numbers", "instances": [[1.5, -2e3], [0, 1e38]]}',
    b'{"signature_name": "numbers", "inputs": {"x": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}}',
    b'{"signature_name": "binary", "instances": [{"b64": "aGVsbG8="}, "x\\u00e9", ""]}',
    b'{"signature_name": "echo", "instances": [{"number": 1, "flag": true, "count": 3, '
    b'"data": {"b64": "AA=="}}]}',
    b'{"signature_name": "echo", "inputs": {"number": [NaN, -Infinity], "flag": [true, false], '
    b'"count": [9007199254740993, -1], "data": ["a", "b"]}}',
    b'{"signature_name": "nbest", "instances": ["a b", "c"]}',
]
PATHS = [
    "/v1/models/translation:predict",
    "/v1/models/translation/versions/3:predict",
    "/v1/models/translation/labels/a:classify",
    "/v1/models/translation:regress",
    "/v1/models/translation/metadata",
    "/v1/models/translation",
]
PIECES = [b"[", b"]", b"{", b"}", b'"', b",", b":", b"\\", b"\xff", b"\x00", b"1e999", b"NaN", b"-"]
PIECES += [b"null", b"true", b'{"b64": "!"}', b"\\ud800", b"18446744073709551616", b"[]", b"{}"]


def mutated(generator, data):
    """Some bytes of it replaced, taken out, doubled or put in."""
    for _ in range(generator.randrange(1, 5)):
        start = generator.randrange(len(data) + 1)
        stop = min(start + generator.randrange(8), len(data))
        filling = generator.choice(
            [b"", data[start:stop] * 2, generator.choice(PIECES), generator.randbytes(3)]
        )
        data = data[:start] + filling + data[stop:]
    return data


@pytest.fixture(scope="module")
def api(tiny_server):
    return RestApi(Models(tiny_server._manager), 30_000, Metrics())


def test_damaged_rest_requests_are_answered(api):
    generator = random.Random(1)
    seen = set()
    for case in range(REST_CASES):
        body = mutated(generator, generator.choice(BODIES))
        path = generator.choice(PATHS) if case % 3 else PATHS[0]
        if case % 5 == 0:
            path = mutated(generator, path.encode()).decode("latin-1")
        method = generator.choice(["POST", "POST", "POST", "GET", "PUT", "BREW"])
        reply = api.answer(method, path, body)
        seen.add(reply.status)
        assert reply.status in (200, 400, 404, 501), (case, method, path, body, reply)
        if reply.content_type == "application/json" and reply.body:
            text = reply.body.decode("utf-8", "replace")
            answer = rapidjson.loads(text, number_mode=rapidjson.NM_NATIVE | rapidjson.NM_NAN)
            assert (reply.status == 200) != ("error" in answer), (case, body, reply)
            assert len(reply.body) < 100_000
    assert {200, 400, 404} <= seen


def test_tensors_of_any_shape_come_back_over_rest(api):
    generator = np.random.default_rng(2)
    for case in range(ROUND_TRIPS):
        shape = generator.integers(1, 4, size=generator.integers(1, 5))
        bits = generator.integers(0, 2**32, size=shape, dtype=np.uint32)
        array = bits.view(np.float32)
        whole = array.astype(np.float64).tolist()
        layout, answered = ("instances", "predictions") if case % 2 else ("inputs", "outputs")
        body = json.dumps({"signature_name": "numbers", layout: whole}).encode()
        reply = api.answer("POST", PATHS[0], body)
        assert reply.status == 200, (case, reply)
        found = np.array(json.loads(reply.body)[answered], np.float32)
        np.testing.assert_array_equal(found, array, err_msg=str(case))


def grpc_requests():
    strings = predict_pb2.PredictRequest()
    strings.model_spec.name, strings.model_spec.signature_name = "translation", "binary"
    strings.inputs["data"].dtype = 7
    strings.inputs["data"].tensor_shape.dim.add().size = 2
    strings.inputs["data"].string_val.extend([b"a", b"bc"])
    numbers = predict_pb2.PredictRequest()
    numbers.model_spec.name, numbers.model_spec.signature_name = "translation", "numbers"
    to_proto(np.float32([[1, 2], [3, 4]]), numbers.inputs["x"])
    packed = predict_pb2.PredictRequest()
    packed.CopyFrom(numbers)
    packed.inputs["x"].ClearField("float_val")
    packed.inputs["x"].tensor_content = np.float32([1, 2, 3, 4]).tobytes()
    packed.output_filter.append("y")
    return [one.SerializeToString() for one in (strings, numbers, packed)]


def test_damaged_grpc_requests_are_answered(tiny_server):
    generator = random.Random(3)
    asked, seen = grpc_requests(), set()
    with grpc.insecure_channel(tiny_server.addresses.grpc) as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        for case in range(GRPC_CASES):
            data = mutated(generator, generator.choice(asked))
            future = call.future(data, timeout=60)
            error = future.exception()
            code = error.code().name if error else "OK"
            seen.add(code)
            readable = True
            try:
                predict_pb2.PredictRequest.FromString(data)
            except Exception:
                readable = False
            # INTERNAL is what gRPC itself says of bytes that are no message.
            allowed = REFUSALS | {"OK", "UNIMPLEMENTED"} if readable else {"INTERNAL"}
            assert code in allowed, (case, data, error)
    assert {"OK", "INTERNAL", "INVALID_ARGUMENT"} <= seen


def test_tensors_of_any_type_and_shape_come_back_over_the_wire():
    generator = np.random.default_rng(4)
    for case in range(TENSORS):
        dtype = DTYPES[case % len(DTYPES)]
        shape = generator.integers(0, 4, size=generator.integers(0, 5))
        array = generator.integers(0, 100, size=shape).astype(dtype)
        proto = predict_pb2.PredictRequest().inputs["x"]
        to_proto(array, proto)
        found = to_array(proto)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array, err_msg=str(case))
