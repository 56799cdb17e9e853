"""The REST API over real sockets, asked byte by byte."""

import base64
import gzip
import http.client
import json
import socket

import pytest

PREDICT = "/v1/models/translation:predict"


@pytest.fixture(scope="module")
def ask(tiny_server):
    def ask(method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(tiny_server.addresses.rest, timeout=60)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content

    return ask


@pytest.fixture(scope="module")
def predict(ask):
    def predict(request, path=PREDICT):
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return ask("POST", path, body)

    return predict


@pytest.fixture(scope="module")
def error(ask):
    def error(method, path, body=None):
        status, content = ask(method, path, body)
        answer = json.loads(content)
        assert list(answer) == ["error"]
        return status, answer["error"]

    return error


def test_rows_of_several_outputs_are_objects(predict):
    assert predict({"instances": ["ab", {"b64": base64.b64encode(b"c").decode()}]}) == (
        200,
        b"""{
    "predictions": [
        {
            "score": -0.666666687,
            "translation": "AB"
        },
        {
            "score": -0.333333343,
            "translation": "C"
        }
    ]
}""",
    )


def test_columns_of_several_outputs(predict):
    assert predict({"inputs": {"text": ["abc", ""]}}) == (
        200,
        b"""{
    "outputs": {
        "score": [
            -1.0,
            0.0
        ],
        "translation": [
            "ABC",
            ""
        ]
    }
}""",
    )


def test_rows_of_one_output_stand_on_one_line(predict):
    request = {"signature_name": "numbers", "instances": [[1, 2.5], [0.2, 9000000]]}
    assert predict(request) == (
        200,
        b'{\n    "predictions": [[1.0, 2.5], [0.2, 9e+06]\n    ]\n}',
    )


def test_columns_of_one_output_have_no_name(predict):
    request = {"signature_name": "numbers", "inputs": [1, 2.5]}
    assert predict(request) == (
        200,
        b'{\n    "outputs": [\n        1.0,\n        2.5\n    ]\n}',
    )


def test_a_scalar_has_a_columnar_form_only(predict):
    assert predict({"signature_name": "numbers", "inputs": 7}) == (200, b'{\n    "outputs": 7.0\n}')


def test_numbers_that_are_none_pass_bare(predict):
    request = b'{"signature_name": "numbers", "instances": [NaN, Infinity, -Infinity]}'
    assert predict(request) == (
        200,
        b'{\n    "predictions": [NaN, Infinity, -Infinity\n    ]\n}',
    )


def test_only_outputs_named_so_are_base64(predict):
    packed = base64.b64encode(b"\xff\x00").decode()
    assert predict({"signature_name": "binary", "instances": [{"b64": packed}]}) == (
        200,
        b'{\n    "predictions": [{\n            "b64": "/wA="\n        }\n    ]\n}',
    )


def test_other_strings_go_out_as_the_model_gave_them(predict):
    packed = base64.b64encode(b'\xff"\n\x1f\x7f').decode()
    status, content = predict({"signature_name": "raw", "instances": [{"b64": packed}]})
    assert status == 200
    assert content == b'{\n    "predictions": ["\xff\\"\\n\\u001F\x7f"\n    ]\n}'


def test_several_inputs_of_several_types_by_rows(predict):
    rows = [
        {"number": 1.5, "flag": True, "count": 1 << 60, "data": "x"},
        {"number": -2, "flag": False, "count": -3, "data": {"b64": "eQ=="}},
    ]
    status, content = predict({"signature_name": "echo", "instances": rows})
    assert status == 200
    assert json.loads(content)["predictions"] == [
        {"number": 1.5, "flag": True, "count": 1 << 60, "data_bytes": {"b64": "eA=="}},
        {"number": -2.0, "flag": False, "count": -3, "data_bytes": {"b64": "eQ=="}},
    ]


def test_several_inputs_by_columns(predict):
    columns = {"number": [[0.5]], "flag": [True], "count": [7], "data": ["x", "y"]}
    status, content = predict({"signature_name": "echo", "inputs": columns})
    assert status == 200
    assert json.loads(content)["outputs"] == {
        "number": [[0.5]],
        "flag": [True],
        "count": [7],
        "data_bytes": [{"b64": "eA=="}, {"b64": "eQ=="}],
    }


def test_several_strings_of_any_script(predict):
    texts = ["中文", "emoji 😀", "nul \x00 here", "line\u2028sep", 'quote " back \\', "/slash"]
    status, content = predict({"inputs": {"text": texts}})
    assert status == 200
    assert json.loads(content)["outputs"]["translation"] == [text.upper() for text in texts]


def test_the_version_of_a_path_answers(predict):
    status, _ = predict({"instances": ["a"]}, "/v1/models/translation/versions/3:predict")
    assert status == 200


def test_names_of_models_may_be_percent_encoded_and_paths_of_any_case(predict):
    status, _ = predict({"instances": ["a"]}, "/V1/Models/%74ranslation:predict")
    assert status == 200


DEFAULT = {"instances": ["a"]}
FAILED = "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: "


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"  ", "JSON Parse error: The document is empty. at offset: 2"),
        (b"instances = [1]", "JSON Parse error: Invalid value. at offset: 0"),
        (
            b'{"instances": ["a"',
            "JSON Parse error: Missing a comma or ']' after an array element. at offset: 18",
        ),
        (
            '{"é": 1 2}'.encode(),
            "JSON Parse error: Missing a comma or '}' after an object member. at offset: 9",
        ),
        (b'{"instances": "\xff"}', "JSON Parse error: Invalid encoding in string. at offset: 15"),
        (b"[1]", "JSON Value: [\n    1\n] Is not object"),
        (b"{}", "Missing 'inputs' or 'instances' key"),
        (
            b'{"instances": 1.5}',
            "JSON Value: {\n    \"instances\": 1.5\n} Excepting 'instances' to be an list/array",
        ),
        (
            b'{"instances": []}',
            "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array",
        ),
        (
            b'{"instances": ["a"], "inputs": ["a"]}',
            'JSON Value: {\n    "instances": [\n        "a"\n    ],\n    "inputs": [\n        "a"\n'
            "    ]\n} Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
            "to exist ",
        ),
        (
            b'{"signature_name": 1}',
            'JSON Value: {\n    "signature_name": 1\n} not formatted correctly. '
            "'signature_name' key must be a string value.",
        ),
        (
            b'{"signature_name": "none", "instances": ["a"]}',
            'Serving signature name: "none" not found in signature def',
        ),
        (
            b'{"instances": [1]}',
            FAILED + "JSON Value: 1 Type: Number is not of expected type: string",
        ),
        (
            b'{"instances": [null]}',
            FAILED + "JSON Value: null Type: Null is not of expected type: string",
        ),
        (
            b'{"instances": [{"word": "a"}]}',
            "Failed to process element: 0 key: word of 'instances' list. Error: "
            "INVALID_ARGUMENT: JSON object: does not have named input: word",
        ),
        (
            b'{"instances": [{}]}',
            "Failed to process element: 0 of 'instances' list. JSON object: {} keys must be "
            "equal to: text",
        ),
        (
            b'{"instances": [{"text": "a"}, "b"]}',
            "Expecting object but got list at item 1 of input list",
        ),
        (
            b'{"instances": ["b", {"text": "a"}]}',
            "Expecting value/list but got object at item 1 of input list",
        ),
        (
            b'{"instances": ["a", ["b"]]}',
            "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
            "Expecting shape [] but got: [1]",
        ),
        (
            b'{"instances": [["a", ["b"]]]}',
            FAILED + "Encountered list at unexpected level: 1 expected < 1",
        ),
        (
            b'{"instances": [[["a"], "b"]]}',
            FAILED + 'JSON Value: "b" found at incorrect level: 2 in the JSON DOM. '
            "Expected at level: 2",
        ),
        (
            b'{"instances": [[["a"], ["b", "c"]]]}',
            FAILED + "Encountered list at unexpected size: 2 at level: 1 expected size: 1",
        ),
        (b'{"instances": [{"b64": "*"}]}', FAILED + "Unable to base64 decode"),
        (b'{"inputs": {"word": ["a"]}}', "Missing named input: text in 'inputs' object."),
        (
            b'{"inputs": {"text": [{"b64": 1}]}}',
            'JSON Value: {\n    "b64": 1\n} not formatted correctly for base64 data',
        ),
        (
            b'{"signature_name": "numbers", "instances": ["1"]}',
            FAILED + 'JSON Value: "1" Type: String is not of expected type: float',
        ),
        (
            b'{"signature_name": "numbers", "instances": [16777216]}',
            FAILED + "Cannot convert JSON value: 16777216 to float without loss of precision.",
        ),
        (
            b'{"signature_name": "numbers", "instances": [1e39]}',
            FAILED + "Cannot convert JSON value: 1e+39 to float without loss of precision.",
        ),
        (
            b'{"signature_name": "echo", "instances": [1]}',
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map",
        ),
        (
            b'{"signature_name": "echo", "inputs": [1]}',
            "inputs is a plain value/list, but expecting an object as multiple input tensors "
            "required as per tensorinfo_map",
        ),
        (
            b'{"signature_name": "echo", "inputs": '
            b'{"number": 1, "flag": [1], "count": [1], "data": ["a"]}}',
            "JSON Value: 1 Type: Number is not of expected type: bool",
        ),
        (
            b'{"signature_name": "echo", "inputs": '
            b'{"number": 1, "flag": [true], "count": [1.0], "data": ["a"]}}',
            "JSON Value: 1.0 Type: Number is not of expected type: int64",
        ),
        (
            b'{"signature_name": "echo", "inputs": '
            b'{"number": 1, "flag": [true], "count": [9223372036854775808], "data": ["a"]}}',
            "JSON Value: 9223372036854775808 Type: Number is not of expected type: int64",
        ),
    ],
)
def test_bad_bodies_are_told_in_the_real_servers_words(error, body, message):
    assert error("POST", PREDICT, body) == (400, message)


def test_the_first_fault_wins_over_an_unknown_model(error):
    assert error("POST", "/v1/models/other:predict", b"{")[1].startswith("JSON Parse error")


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        (
            "POST",
            "/v1/models/other:predict",
            404,
            "Servable not found for request: Latest(other)",
        ),
        (
            "POST",
            "/v1/models/translation/versions/9:predict",
            404,
            "Servable not found for request: Specific(translation, 9)",
        ),
        (
            "POST",
            "/v1/models/translation/labels/new:predict",
            400,
            "Unrecognized servable version label: new",
        ),
        ("POST", PREDICT + "?x=1", 400, f"Malformed request: POST {PREDICT}?x=1"),
        ("GET", PREDICT, 400, f"Malformed request: GET {PREDICT}"),
        ("GET", "/v1/models/a/b/c", 400, "Malformed request: GET /v1/models/a/b/c"),
        ("GET", "/v1/foo", 400, "Malformed request: GET /v1/foo"),
        (
            "POST",
            "/v1/models/translation/versions/x:predict",
            400,
            "Malformed request: POST /v1/models/translation/versions/x:predict",
        ),
        (
            "POST",
            "/v1/models/translation:PREDICT",
            400,
            "Malformed request: POST /v1/models/translation:PREDICT",
        ),
        ("PUT", PREDICT, 400, f"Malformed request: PUT {PREDICT}"),
        ("GET", "/v1/models", 400, "Missing model name in request."),
        ("GET", "/v1/models/other", 404, "Could not find any versions of model other"),
        (
            "GET",
            "/v1/models/translation/versions/9",
            404,
            "Could not find version 9 of model translation",
        ),
        (
            "GET",
            "/v1/models/other/metadata",
            404,
            "Servable not found for request: Latest(other)",
        ),
    ],
)
def test_bad_paths(error, method, path, status, message):
    body = json.dumps(DEFAULT) if method == "POST" else None
    assert error(method, path, body) == (status, message)


def test_a_version_beyond_64_bits_has_an_error_without_a_body(ask):
    path = f"/v1/models/translation/versions/{1 << 63}:predict"
    assert ask("POST", path, b"{}") == (400, b"")


@pytest.mark.parametrize(("method", "status"), [("GET", 404), ("TRACE", 501)])
def test_what_is_not_the_api_gets_a_page(ask, method, status):
    path = "/" if method == "GET" else PREDICT
    answered, content = ask(method, path)
    assert answered == status
    assert content.startswith(b"<HTML>")


@pytest.mark.parametrize("path", ['/v1/models/"x"', "/v1/models/a%zz", "/v1/models/x?a={}"])
def test_what_is_no_uri_gets_a_page(ask, path):
    status, content = ask("GET", path)
    assert (status, content) == (
        400,
        b"<HTML><HEAD>\n<TITLE>400 Bad Request</TITLE>\n</HEAD><BODY>\n<H1>Bad Request</H1>\n"
        b"</BODY></HTML>\n",
    )


def test_a_target_may_name_the_host(ask):
    whole = ask("GET", "http://example.org/v1/models/translation")
    assert whole[0] == 200 and whole == ask("GET", "/v1/models/translation")


def test_status(ask):
    status, content = ask("GET", "/v1/models/translation")
    assert status == 200
    assert json.loads(content) == {
        "model_version_status": [
            {
                "version": "3",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }
    assert ask("GET", "/v1/models/translation/versions/3") == (status, content)
    # The real server looks at no label here.
    assert ask("GET", "/v1/models/translation/labels/none") == (status, content)


def test_metadata(ask):
    status, content = ask("GET", "/v1/models/translation/metadata")
    assert status == 200
    answer = json.loads(content)
    assert answer["model_spec"] == {"name": "translation", "signature_name": "", "version": "3"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["text"] == {
        "dtype": "DT_STRING",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
        "name": "serving_default_text:0",
    }


def test_gzip_bodies_are_unpacked(ask):
    packed = gzip.compress(json.dumps(DEFAULT).encode())
    status, content = ask("POST", PREDICT, packed, {"Content-Encoding": "gzip"})
    assert status == 200
    assert json.loads(content)["predictions"][0]["translation"] == "A"


@pytest.mark.parametrize(
    "packed",
    [b"not gzip", gzip.compress(b'{"instances": ["a"]}')[:-9], gzip.compress(bytes(70 << 20))],
    ids=["other bytes", "cut off", "bomb"],
)
def test_bodies_that_cannot_be_unpacked_count_as_empty(ask, packed):
    status, content = ask("POST", PREDICT, packed, {"Content-Encoding": "gzip"})
    assert status == 400
    assert json.loads(content)["error"] == "JSON Parse error: The document is empty"


@pytest.mark.parametrize("nested", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900])
def test_deep_nesting_is_refused_without_harm(error, nested):
    status, message = error("POST", PREDICT, b'{"instances": ' + nested + b"}")
    assert status == 400
    assert len(message) < 10_000


def test_a_quoted_value_does_not_grow_with_the_request(error):
    long = b'{"instances": {"a": [' + b"1," * 100_000 + b"1]}}"
    status, message = error("POST", PREDICT, long)
    assert status == 400
    assert len(message) < 5000
    assert message.endswith("... Excepting 'instances' to be an list/array")


def test_big_bodies_pass(predict):
    text = "x" * (8 << 20)
    status, content = predict({"inputs": {"text": [text]}})
    assert status == 200
    assert json.loads(content)["outputs"]["translation"] == [text.upper()]


def test_bodies_beyond_the_limit_are_refused(tiny_server):
    host, port = tiny_server.addresses.rest.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {65 << 20}\r\n\r\n"
        connection.sendall(head.encode())
        # The answer comes before a body that nobody wants.
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_endless_bodies_are_cut_off(tiny_server):
    host, port = tiny_server.addresses.rest.split(":")
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(200):
                connection.sendall(chunk)


def test_connections_are_kept(tiny_server):
    connection = http.client.HTTPConnection(tiny_server.addresses.rest, timeout=60)
    connection.connect()
    first = connection.sock
    for body, status in (
        (b'{"instances": ["a"]}', 200),
        (b"{", 400),
        (b'{"instances": ["b"]}', 200),
    ):
        connection.request("POST", PREDICT, body)
        response = connection.getresponse()
        response.read()
        assert response.status == status
        assert response.headers["Content-Type"] == "application/json"
    assert connection.sock is first
    connection.close()


def test_bytes_that_are_no_http_do_not_disturb(tiny_server, ask):
    host, port = tiny_server.addresses.rest.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"\x00\xff\r\n\r\n")
        assert connection.recv(100).startswith((b"HTTP/1.1 400", b""))
    assert ask("GET", "/v1/models/translation")[0] == 200
