"""Sample translations stand in TensorBoard's table letter for letter."""

import html
import re

import numpy as np
import pytest
from tensorboard.plugin_util import markdown_to_safe_html

from pipeline.monitor.panel import ValidationSamples
from pipeline.monitor.translations import table


def rendered(text):
    """The rows of cells that TensorBoard shows."""
    page = markdown_to_safe_html(text)
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.S)
    return [
        [html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
        for row in rows
    ]


def one_sample(text):
    return ValidationSamples([text], [text], [text], [["x"]], [["x"]], [np.ones([1, 1])])


def test_each_sample_is_a_row(samples):
    header, first, second = rendered(table(samples))
    assert header == ["", "Source", "Reference", "Answer"]
    assert first == ["1", "打开 文件", "open the file", "open file"]
    assert second == ["2", "a | b", "<b>c</b>", "<em>empty</em>"]


@pytest.mark.parametrize(
    "text",
    [
        "a | b || c",
        "*stars* and _lines_ and `code`",
        "<script>alert(1)</script> & &amp; &lt;",
        r"back\slash \| and \n",
        "[link](http://example.org) ![picture](x.png)",
        "# not a heading",
        "- not a list",
        "1. not a list",
        "| --- | --- |",
        "http://example.org/a_b_c",
        "\"quoted\" and 'quoted' text...",
        "“引号”、全角｜竖线",
        "$x_1^2$ {braces} ~~struck~~ + = :",
    ],
)
def test_marks_are_shown_as_they_are(text):
    _, row = rendered(table(one_sample(text)))
    assert row == ["1", text, text, text]


def test_line_breaks_do_not_break_the_table():
    _, row = rendered(table(one_sample("one\ntwo\u2028three\r\nfour")))
    assert row[1] == "one two three four"
