"""What `seqloom predict` makes of lines, and of the answers to them."""

import io
import json
import struct
import subprocess
import sys

import pytest
from command import command, environment, seqloom

from models.errors import UserError
from pipeline.predict import answer_rows, parse_object, parse_text, predict_standard_input
from serving.stream import answer_stream


class Echo:
    """Answers with what it was asked, and keeps the requests."""

    def __init__(self):
        self.asked = []

    def predict(self, inputs, signature):
        self.asked.append((inputs, signature))
        return [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]


def answers(data, parse, batch_size=2):
    echo, output = Echo(), io.BytesIO()
    answer_stream(
        lambda rows: answer_rows(echo, "name", rows), parse, io.BytesIO(data), output, batch_size
    )
    return output.getvalue().decode(), echo.asked


def test_text_lines_are_the_one_input_and_empty_ones_too():
    output, asked = answers(b"\xef\xbb\xbfa\r\n\nb b\n", lambda *line: parse_text("text", *line))
    assert output == '{"text": "a"}\n{"text": ""}\n{"text": "b b"}\n'
    assert [len(inputs["text"]) for inputs, _ in asked] == [2, 1]
    assert asked[0][1] == "name"


def test_objects_hold_all_inputs_and_blank_lines_stay():
    data = b'{"story": "a", "question": "b"}\n\n{"question": "d", "story": "c"}\n'
    output, asked = answers(data, parse_object)
    rows = [json.loads(line) if line else None for line in output.split("\n")[:-1]]
    assert rows == [{"story": "a", "question": "b"}, None, {"story": "c", "question": "d"}]
    assert asked == [({"story": ["a", "c"], "question": ["b", "d"]}, "name")]


def test_numbers_are_floats_where_one_is_and_bytes_are_base64():
    rows = [parse_object('{"t": 1, "k": 2, "image": {"b64": "/9g="}}', 1)]
    assert parse_object('{"frames": ["a", {"b64": "/9g="}]}', 1) == {"frames": ["a", b"\xff\xd8"]}
    rows.append(parse_object('{"t": 0.5, "k": 3, "image": "text"}', 2))
    echo = Echo()
    echo.predict = lambda inputs, _: echo.asked.append(inputs) or []
    answer_rows(echo, "name", rows)
    assert echo.asked == [{"t": [1.0, 0.5], "k": [2, 3], "image": [b"\xff\xd8", b"text"]}]
    assert [type(each) for each in echo.asked[0]["t"]] == [float, float]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("text", "line 7: not a JSON object"),
        ("[1]", "line 7: not a JSON object of inputs"),
        ("{}", "line 7: not a JSON object of inputs"),
        ('{"a": true}', "line 7: the input 'a' is true; expected a string, a number"),
        ('{"a": null}', "line 7: the input 'a' is null"),
        ('{"a": [["b"]]}', "line 7: the input 'a' is"),
        ('{"a": {"b64": "?"}}', "line 7: the input 'a' is"),
        ("[" * 100_000, "line 7: not a JSON object"),
    ],
)
def test_lines_that_are_no_inputs(line, message):
    with pytest.raises(UserError, match=message):
        parse_object(line, 7)


def test_lines_with_other_inputs():
    data = b'{"a": "x"}\n{"a": "y"}\n{"a": "z"}\n{"b": "z"}\n'
    with pytest.raises(UserError, match=r"has the inputs b, and another a.* \(2 lines are done"):
        answers(data, parse_object)


def test_floats_are_as_long_as_float32_needs():
    single = struct.unpack("f", struct.pack("f", 0.1))[0]
    precise = struct.unpack("f", struct.pack("f", 1 / 3))[0]
    echo = Echo()
    echo.predict = lambda *_: [{"scores": [single, [precise, 1e39]], "n": 3, "text": "ü"}]
    (line,) = answer_rows(echo, "name", [{"text": "a"}])
    assert line == '{"n": 3, "scores": [0.1, [0.33333334, 1e+39]], "text": "ü"}'


@pytest.mark.parametrize("name", ["input", "output"])
def test_a_closed_standard_stream_is_told(monkeypatch, name):
    monkeypatch.setattr(sys, f"std{name.removesuffix('put')}", None)
    with pytest.raises(UserError, match=f"standard {name} is closed"):
        predict_standard_input("a", "b", False, "127.0.0.1:1", False, None, "m", 1, 1.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b'{"a": 1}\n{"a": "x"}\n', b"the input 'a' was given values of several types"),
        (b'{"a": 2147483648}\n', b"the input 'a' was given an integer beyond"),
    ],
)
def test_columns_that_no_tensor_holds(lines, message):
    done = seqloom("predict", "--json", "--server", "127.0.0.1:1", stdin=lines, status=2)
    assert done.stdout == b"" and message in done.stderr


def test_without_a_server_one_line_of_advice():
    done = seqloom("predict", "--server", "127.0.0.1:1", "--timeout", "0.5", stdin=b"a\n", status=2)
    assert done.stdout == b"" and b"no server answers there" in done.stderr
    both = seqloom("predict", "--server", "x", "--model", "y", status=2)
    assert b"keep one of the two" in both.stderr


def test_asking_a_server_needs_no_tensorflow():
    program = (
        "import sys, pipeline.cli, pipeline.predict\n"
        "print(*{'tensorflow', 'keras', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [command()[0], "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
