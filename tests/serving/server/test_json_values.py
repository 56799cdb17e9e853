import ctypes
import struct

import numpy as np
import pytest

from serving.server.json_values import decimals, parse_object, quoted
from serving.server.status import ServingError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.2, b"0.2"),
        (1.0, b"1.0"),
        (-0.0, b"-0.0"),
        (1 / 3, b"0.333333343"),
        (9000000.0, b"9e+06"),
        (0.00003, b"3e-05"),
        (123456.0, b"123456.0"),
        (1234567.0, b"1234567.0"),
        (16777216.0, b"16777216.0"),
        (np.finfo(np.float32).max, b"3.40282347e+38"),
        (np.finfo(np.float32).tiny, b"1.17549435e-38"),
        (float("nan"), b"NaN"),
        (float("inf"), b"Infinity"),
        (float("-inf"), b"-Infinity"),
    ],
)
def test_decimals_of_single_precision(value, text):
    assert decimals(np.array([value], np.float32)) == [text]


def test_decimals_of_double_precision():
    values = np.array([0.1, 1 / 3, 1e300, 2.0], np.float64)
    assert decimals(values) == [b"0.1", b"0.33333333333333331", b"1e+300", b"2.0"]


def test_decimals_read_back_as_the_same_numbers():
    """Against C's own conversions, for random bit patterns of every magnitude."""
    bits = np.random.default_rng(1).integers(0, 1 << 32, 20_000, dtype=np.uint32)
    numbers = bits.view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    strtof = ctypes.CDLL(None).strtof
    strtof.restype = ctypes.c_float
    read_back = [strtof(text, None) for text in decimals(numbers)]
    assert struct.pack(f"{len(numbers)}f", *read_back) == numbers.tobytes()


def test_a_byte_order_mark_is_skipped_and_counted():
    assert parse_object(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    with pytest.raises(ServingError, match="at offset: 4"):
        parse_object(b"\xef\xbb\xbf{")


def test_integers_beyond_64_bits_become_doubles():
    parsed = parse_object(b'{"a": 18446744073709551615, "b": 18446744073709551616}')
    assert parsed == {"a": 18446744073709551615, "b": 18446744073709551616.0}
    assert isinstance(parsed["a"], int) and isinstance(parsed["b"], float)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "true"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (float("nan"), "NaN"),
        (1e200, "1e+200"),
        ("é\n", '"é\\n"'),
        ([1, {}], "[\n    1,\n    {}\n]"),
    ],
)
def test_values_are_quoted_as_indented_json(value, text):
    assert quoted(value) == text


def test_long_values_are_quoted_compact_and_cut():
    text = quoted([[1] * 2000] * 1000)
    assert text.startswith("[[1,1,1") and text.endswith("...") and len(text) < 5000
