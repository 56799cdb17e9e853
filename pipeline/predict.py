"""`seqloom predict`: any signature of any model, lines in and JSON lines out."""

import base64
import binascii
import contextlib
import functools
import json
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from models.errors import UserError
from pipeline.places import Place
from pipeline.translate import asked_model, check_streams
from serving.stream import answer_stream

Value = str | bytes | int | float
Row = dict[str, Value | list[Value]]

_FLOAT32 = struct.Struct("f")
_BASE64 = "b64"


class Predicts(Protocol):
    """Anything that runs signatures, as `Client` does."""

    def predict(self, inputs: Mapping[str, Sequence], signature: str) -> list[dict[str, Any]]:
        """A row of outputs a row of inputs."""


def predict_standard_input(
    signature: str,
    input_name: str,
    is_json: bool,
    server: str,
    rest: bool,
    model: Place | None,
    model_name: str,
    batch_size: int,
    timeout: float,
) -> None:
    """Answer line by line: a JSON object of all outputs a line.

    Args:
        signature: Name of the signature.
        input_name: What a line is, where it is no JSON.
        is_json: Lines are JSON objects of all inputs; a blank line comes out blank.
        server: `host:port`; the API's usual port of this machine if empty.
        rest: Ask over REST, not gRPC.
        model: An exported model to use in place of a server, or None.
        model_name: Name the server knows the model by.
        batch_size: Lines a request.
        timeout: Seconds a request may take.

    Raises:
        UserError: If there is no such server, model or signature, or a line cannot be right.
        SystemExit: With status 1, if the server fails.
    """
    check_streams("input", "output")
    parse = parse_object if is_json else functools.partial(parse_text, input_name)
    with asked_model(server, rest, model, model_name, batch_size, timeout) as predictor:
        answer = functools.partial(answer_rows, predictor, signature)
        answer_stream(answer, parse, sys.stdin.buffer, sys.stdout.buffer, batch_size)


def parse_text(input_name: str, line: str, _: int) -> Row:
    """A line as the only input."""
    return {input_name: line}


def parse_object(line: str, number: int) -> Row | None:
    """A line as a JSON object of inputs; None if it is blank.

    Strings, numbers and, for bytes, `{"b64": "..."}` are values, and lists of them.

    Args:
        line: The line.
        number: Of the line, from 1.

    Raises:
        UserError: If it is none.
    """
    if not line.strip():
        return None
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"line {number}: not a JSON object ({error}); give one a line") from None
    if not isinstance(row, dict) or not row:
        raise UserError(f"line {number}: not a JSON object of inputs; give one a line")
    return {
        name: [_value(each, name, number) for each in value]
        if isinstance(value, list)
        else _value(value, name, number)
        for name, value in row.items()
    }


def answer_rows(predictor: Predicts, signature: str, rows: list[Row]) -> list[str]:
    """A JSON object of the outputs, in alphabetical order, for each row of inputs.

    Raises:
        UserError: If the rows have not the same inputs, or as the predictor raises it.
    """
    names = list(rows[0])
    for row in rows:
        if set(row) != set(names):
            raise UserError(
                f"signature {signature!r}: a line has the inputs {', '.join(row)}, and another "
                f"{', '.join(names)}; give all lines the same"
            )
    columns = {name: _column([row[name] for row in rows]) for name in names}
    answers = predictor.predict(columns, signature)
    return [json.dumps(_shortest(each), ensure_ascii=False, sort_keys=True) for each in answers]


def _value(value: Any, name: str, number: int) -> Value:
    if isinstance(value, dict) and set(value) == {_BASE64} and isinstance(value[_BASE64], str):
        with contextlib.suppress(binascii.Error, ValueError):
            return base64.b64decode(value[_BASE64], validate=True)
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return value
    raise UserError(
        f"line {number}: the input {name!r} is {json.dumps(value)[:60]}; expected a string, a "
        f'number, {{"{_BASE64}": "..."}} for bytes, or a list of these'
    )


def _column(values: list[Value | list[Value]]) -> list:
    """Values of one type where they can be: integers among numbers are numbers too."""
    if any(isinstance(value, bytes) for value in values):
        return [value.encode() if isinstance(value, str) else value for value in values]
    if any(isinstance(value, float) for value in values):
        return [float(value) if isinstance(value, int) else value for value in values]
    return values


def _shortest(value: Any) -> Any:
    """Floats with as many digits as tell a float32 from all others."""
    if isinstance(value, dict):
        return {name: _shortest(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shortest(each) for each in value]
    if not isinstance(value, float):
        return value
    with contextlib.suppress(OverflowError):
        packed = _FLOAT32.pack(value)
        for digits in range(6, 10):
            short = float(f"{value:.{digits}g}")
            if _FLOAT32.pack(short) == packed:
                return short
    return value
