"""JSON as TensorFlow Serving reads and quotes it: its parser, its errors, its decimals."""

import math
import re

import numpy as np
import rapidjson

from serving.server.status import ServingError, invalid_argument

Json = dict | list | str | int | float | bool | None

# Numbers beyond 64 bits become doubles, and NaN and Infinity are numbers.
_NUMBERS = rapidjson.NM_NATIVE | rapidjson.NM_NAN
_PARSE_ERROR = re.compile(r"Parse error at offset (\d+): (.*)", re.DOTALL)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Indenting can make a deeply nested value a thousand times longer than the request was.
_QUOTED_WHOLE = 4096
_FLOAT32_MAX = 3.4028234e38


def parse_object(body: bytes) -> dict:
    """Parse a request body, which must be one JSON object.

    Args:
        body: UTF-8, perhaps after a byte order mark.

    Returns:
        The object.

    Raises:
        ServingError: INVALID_ARGUMENT, with the parser's words and the offset in bytes.
    """
    if not body:
        raise invalid_argument("JSON Parse error: The document is empty")
    skipped = len(_BYTE_ORDER_MARK) if body.startswith(_BYTE_ORDER_MARK) else 0
    try:
        value = rapidjson.loads(body[skipped:].decode("utf-8"), number_mode=_NUMBERS)
    except UnicodeDecodeError as error:
        raise _parse_error("Invalid encoding in string.", skipped + error.start) from None
    except (rapidjson.JSONDecodeError, RecursionError) as error:
        told = _PARSE_ERROR.fullmatch(str(error))
        offset, reason = told.groups() if told else (0, str(error))
        raise _parse_error(reason, skipped + int(offset)) from None
    if not isinstance(value, dict):
        raise format_error(value, "Is not object")
    return value


def format_error(value: Json, complaint: str) -> ServingError:
    """An error that quotes a value of the request."""
    return invalid_argument(f"JSON Value: {quoted(value)} {complaint}")


def quoted(value: Json) -> str:
    """A value as error messages show it: indented JSON; a long one compact, and cut."""
    if isinstance(value, float):
        single = abs(value) <= _FLOAT32_MAX
        return decimals(np.array([value], dtype=np.float32 if single else np.float64))[0].decode()
    compact = rapidjson.dumps(value, ensure_ascii=False, number_mode=_NUMBERS)
    if len(compact) > _QUOTED_WHOLE:
        return compact[:_QUOTED_WHOLE] + "..."
    return rapidjson.dumps(
        value, ensure_ascii=False, number_mode=_NUMBERS, write_mode=rapidjson.WM_PRETTY
    )


def type_name(value: Json) -> str:
    """The parser's name for the type of a value."""
    if isinstance(value, bool):
        return str(value)
    names = {dict: "Object", list: "Array", str: "String", type(None): "Null"}
    return names.get(type(value), "Number")


def decimals(array: np.ndarray) -> list[bytes]:
    """Write floating-point numbers so that they read back as the same numbers.

    Six significant digits where they suffice, else as many as the type needs; `.0` after
    whole numbers; NaN and infinities bare.

    Args:
        array: float32 or float64, any shape.

    Returns:
        The texts of the elements, flattened in row-major order.
    """
    flat = array.ravel()
    values = flat.tolist()
    texts = [f"{value:.6g}" for value in values]
    exact = np.array([float(text) for text in texts], dtype=flat.dtype) == flat
    digits = 9 if flat.dtype == np.float32 else 17
    for index in np.flatnonzero(~exact):
        texts[index] = _wide(values[index], digits)
    return [_with_point(text).encode() for text in texts]


def _wide(value: float, digits: int) -> str:
    return "NaN" if math.isnan(value) else f"{value:.{digits}g}"


def _with_point(text: str) -> str:
    if text in ("inf", "-inf"):
        return text.replace("inf", "Infinity")
    return text if "." in text or "e" in text or text == "NaN" else text + ".0"


def _parse_error(reason: str, offset: int) -> ServingError:
    return invalid_argument(f"JSON Parse error: {reason} at offset: {offset}")
