"""A line in, a line out, whatever the lines are."""

import io
import os
import pathlib
import subprocess
import sys

import pytest

from models.errors import UserError
from serving.answers import Translation
from serving.translate import translate_stream

ROOT = pathlib.Path(__file__).parents[2]


def upper(texts):
    return [text.upper() for text in texts]


def translated(data, translate=upper, batch_size=3):
    output, report = io.BytesIO(), io.StringIO()
    summary = translate_stream(translate, io.BytesIO(data), output, batch_size, report)
    return output.getvalue(), summary, report.getvalue()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", b""),
        (b"a\n", b"A\n"),
        (b"a", b"A\n"),
        (b"\n", b"\n"),
        (b"\n\na\n\n\n", b"\n\nA\n\n\n"),
        (b"a\r\nb\r\n\r\n", b"A\nB\n\n"),
        (b"a\r", b"A\n"),
        (b"\xef\xbb\xbfa\nb\n", b"A\nB\n"),
        (b"\xef\xbb\xbf\na\n", b"\nA\n"),
        # Inside a line the mark is a character.
        (b"a\n\xef\xbb\xbfb\n", b"A\n\xef\xbb\xbfB\n"),
        ("a\u2028b\x0bc\x0cd\x85e\u0085f\n".encode(), "A\u2028B\x0bC\x0cD\x85E\u0085F\n".encode()),
        (b"  a \t\n", b"  A \t\n"),
        (b" \n", b" \n"),
        (b"a\x00b\n", b"A\x00B\n"),
        (b"1\n2\n3\n4\n5\n6\n7\n", b"1\n2\n3\n4\n5\n6\n7\n"),
        ("中文\n😀\n".encode(), "中文\n😀\n".encode()),
    ],
)
def test_lines(data, expected):
    output, summary, report = translated(data)
    assert output == expected
    assert summary.lines == expected.count(b"\n")
    assert report == ""


def test_empty_lines_are_not_asked_for():
    asked = []

    def translate(texts):
        asked.append(list(texts))
        return texts

    output, summary, _ = translated(b"\na\n\nb\nc\nd\n\n", translate)
    assert asked == [["a", "b", "c"], ["d"]]
    assert (summary.lines, summary.empty) == (7, 3)
    assert output.count(b"\n") == 7


@pytest.mark.parametrize("text", ["x\ny", "x\r\ny", "x\ry"])
def test_line_breaks_of_translations_become_spaces(text):
    assert translated(b"a\nb\n", lambda texts: [text for _ in texts])[0] == b"x y\nx y\n"


def test_answers_may_be_translations_and_the_translator_an_object():
    class Translator:
        def translate(self, texts):
            return [Translation(text + "!", -1.0) for text in texts]

    assert translated(b"a\nb\n", Translator())[0] == b"a!\nb!\n"


def test_damaged_bytes_keep_the_lines_in_step_and_are_reported():
    data = b"good\n" + "中文".encode("gbk") + b"\nalso good\n\xff\n"
    output, summary, report = translated(data)
    lines = output.decode().split("\n")
    assert lines[0] == "GOOD" and lines[2] == "ALSO GOOD" and lines[3] == "\ufffd"
    assert len(lines) == 5 and "\ufffd" in lines[1]
    assert summary.invalid == [2, 4]
    assert "2 of 4 lines were not valid UTF-8" in report and "(line 2, 4)" in report


def test_batches_are_written_as_they_are_done():
    output = io.BytesIO()
    seen = []

    def translate(texts):
        seen.append(output.getvalue())
        return texts

    translate_stream(translate, io.BytesIO(b"a\nb\nc\nd\n"), output, 2)
    assert seen == [b"", b"a\nb\n"]


def test_many_empty_lines_do_not_pile_up():
    output = io.BytesIO()
    written = []

    def lines():
        for _ in range(5000):
            written.append(len(output.getvalue()))
            yield b"\n"

    translate_stream(upper, lines(), output)
    assert written[-1] > 3000
    assert output.getvalue() == b"\n" * 5000


def test_an_error_tells_how_far_it_came():
    def translate(texts):
        if "bad" in texts:
            raise UserError("host:1: no server answers there")
        return texts

    output = io.BytesIO()
    with pytest.raises(UserError, match=r"no server answers there \(2 lines are done"):
        translate_stream(translate, io.BytesIO(b"a\nb\nbad\n"), output, 2)
    assert output.getvalue() == b"a\nb\n"


def test_a_translator_that_loses_a_text_is_found_out():
    with pytest.raises(ValueError, match="2 lines got 1 answers"):
        translated(b"a\nb\n", lambda texts: texts[:1])


CODE = """
import sys
from serving.client import translate_stream
translate_stream(lambda texts: [text.upper() for text in texts], sys.stdin.buffer,
                 sys.stdout.buffer, 1)
"""


def test_a_reader_that_leaves_ends_the_work_quietly():
    process = subprocess.Popen(
        [sys.executable, "-c", CODE],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(b"a\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"A\n"
    process.stdout.close()
    try:
        process.stdin.write(b"b\n" * 100_000)
        process.stdin.close()
    except BrokenPipeError:
        pass
    process.stdin = None
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")


def test_the_locale_does_not_matter():
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", CODE],
        cwd=ROOT,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        input="grün ж\n".encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == "GRÜN Ж\n".encode()
    assert done.stderr == b""
