import json

import numpy as np
import pytest

from serving.server.json_request import Layout
from serving.server.json_response import write_error, write_predict
from serving.server.status import ServingError


def strings(*values):
    return np.array(values, dtype=object)


@pytest.mark.parametrize("layout", Layout)
def test_every_type_reads_back(layout):
    outputs = {
        "single": np.array([[0.1], [2.0]], np.float32),
        "double": np.array([0.1, 1e300]),
        "flag": np.array([True, False]),
        "text": strings(b"a\tb", "中".encode()),
        "empty": np.zeros([2, 0], np.float32),
        **{
            kind: np.array([np.iinfo(kind).min, np.iinfo(kind).max], kind)
            for kind in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
        },
    }
    answer = json.loads(write_predict(outputs, layout))
    expected = {
        name: [row.decode() for row in array] if array.dtype == object else array.tolist()
        for name, array in outputs.items()
    }
    expected["single"] = [[0.1], [2.0]]
    if layout is Layout.COLUMNAR:
        assert answer == {"outputs": expected}
    else:
        rows = [{name: expected[name][row] for name in expected} for row in range(2)]
        assert answer == {"predictions": rows}


def test_no_rows():
    assert write_predict({"y": np.zeros([0, 2], np.float32)}, Layout.ROW) == (
        b'{\n    "predictions": []\n}'
    )
    assert write_predict({"y": np.zeros([0], np.float32)}, Layout.COLUMNAR) == (
        b'{\n    "outputs": []\n}'
    )


def test_binary_strings_in_columns_and_rows_of_several_outputs():
    outputs = {"a_bytes": strings(b"x"), "b": np.array([1], np.int32)}
    assert write_predict(outputs, Layout.COLUMNAR) == (
        b'{\n    "outputs": {\n        "a_bytes": [\n            {\n                "b64": "eA=="\n'
        b'            }\n        ],\n        "b": [\n            1\n        ]\n    }\n}'
    )
    assert write_predict(outputs, Layout.ROW) == (
        b'{\n    "predictions": [\n        {\n            "a_bytes": {\n'
        b'                "b64": "eA=="\n            },\n            "b": 1\n        }\n    ]\n}'
    )


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({}, "Cannot convert empty tensor map to JSON"),
        ({"y": np.array(1.0)}, "Tensor name: y has no shape information "),
        (
            {"a": np.zeros([2]), "b": np.zeros([3])},
            "Tensor name: b has inconsistent batch size: 3 expecting: 2",
        ),
        ({"y": np.zeros([1], np.float16)}, "Failed to write JSON value for tensor type: half"),
    ],
)
def test_outputs_that_make_no_rows(outputs, message):
    with pytest.raises(ServingError) as caught:
        write_predict(outputs, Layout.ROW)
    assert caught.value.message == message
    assert caught.value.http_status == 400


def test_errors_are_json_whatever_they_quote():
    assert json.loads(write_error('quote " line\n\x01 é')) == {"error": 'quote " line\n\x01 é'}
