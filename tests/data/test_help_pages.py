import pytest
from help_pages import Kind, normalized, read_paragraphs


def texts(page):
    return [paragraph.text for paragraph in read_paragraphs(page)]


def test_paragraphs_and_headings_come_in_order_with_their_ids():
    page = """<html><head><title>Title</title><script>var p = "<p>no</p>";</script></head><body>
    <h1 id="hd_1" dir="auto">Web Layout</h1><div>between</div>
    <p id="par_2" class="paragraph">Shows the page.</p><td><p id="par_3">Cell</p></td></body>"""
    found = [(paragraph.identifier, paragraph.text) for paragraph in read_paragraphs(page)]
    assert found == [("hd_1", "Web Layout"), ("par_2", "Shows the page."), ("par_3", "Cell")]


def test_nested_tags_leave_their_words():
    page = (
        '<p id="a"><a name="x"></a>Choose <span class="menuitem">View - '
        '<a href="y"><span>Web</span></a></span>, then m<sup>2</sup>.</p>'
    )
    assert texts(page) == ["Choose View - Web, then m2."]


def test_entities_are_characters():
    page = '<p id="a">A &lt; B &amp;&amp; C&nbsp;&gt;&#32;&#x41; &quot;d&quot;</p>'
    assert texts(page) == ['A < B && C > A "d"']


def test_a_paragraph_without_an_id_has_none():
    page = '<p>Furniture</p><p id="">Empty</p><p id="a">Text</p>'
    assert [paragraph.identifier for paragraph in read_paragraphs(page)] == [None, None, "a"]


def switch(*alternatives):
    spans = "".join(
        f'<span hidden="true" class="{name}">{text}</span>' for name, text in alternatives
    )
    return f'<span id="s" class="switchinline">{spans}</span>'


@pytest.mark.parametrize(
    ("alternatives", "expected"),
    [
        ([("MAC", "Command"), ("", "Ctrl")], "Ctrl"),
        ([("", "Ctrl"), ("MAC", "Command")], "Ctrl"),
        ([("MAC", "Command"), ("WIN", "Alt"), ("UNIX", "Meta")], "Alt"),
        ([("WRITER", "Page"), ("CALC", "Sheet")], "Page"),
        ([("MAC", "Command")], ""),
        ([("MAC", '<span class="emph">Preferences</span>'), ("", "<b>Options</b>")], "Options"),
    ],
)
def test_of_a_switch_one_alternative_is_read_and_never_that_of_macos(alternatives, expected):
    assert texts(f'<p id="a">Press [{switch(*alternatives)}]</p>') == [f"Press [{expected}]"]


def test_a_switch_inside_a_switch():
    inner = switch(("WRITER", "page"), ("", "sheet"))
    page = f'<p id="a">The {switch(("MAC", "window"), ("", f"first {inner}"))} opens.</p>'
    assert texts(page) == ["The first sheet opens."]


def test_a_paragraph_in_a_block_for_macos_is_known_as_such():
    page = (
        '<span class="switch"><span class="MAC"><div><p id="a">Open Preferences.</p></div></span>'
        '<span id="default"><p id="b">Open Options.</p></span></span><p id="c">Go on.</p>'
    )
    kinds = [paragraph.kind for paragraph in read_paragraphs(page)]
    assert kinds == [Kind.MACOS, Kind.TEXT, Kind.TEXT]


@pytest.mark.parametrize(
    "page",
    [
        '<p id="a" class="code">Dim x</p>',
        '<p id="a" class="codeintable wide">Dim x</p>',
        '<p id="a" class="smathcode">a over b</p>',
        '<pre><code><p id="a">Dim x</p></code></pre>',
        '<div class="bascode"><p id="a">Dim x</p></div>',
    ],
)
def test_program_text_is_known_as_such(page):
    assert [paragraph.kind for paragraph in read_paragraphs(page)] == [Kind.CODE]


def test_a_name_of_a_key_or_function_in_a_sentence_is_not_program_text():
    page = '<p id="a">Press <span class="keycode">F5</span> or <span class="literal">x</span></p>'
    assert [paragraph.kind for paragraph in read_paragraphs(page)] == [Kind.TEXT]


def test_tags_left_open_or_closed_too_often_do_not_mix_paragraphs():
    page = '</div><p id="a">One <b>bold</p><p id="b">Two</i></p></div><p id="c">Three'
    assert texts(page) == ["One bold", "Two", "Three"]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("One<br>two<br/>three", "One two three"),
        ("Click <img src='x'> twice", "Click twice"),
        ("Click<img src='x' alt='Icon'/>twice", "Click twice"),
        ("Click the icon <img src='x'>.", "Click the icon."),
        ("点击图标 <img src='x'> 删除 <img src='y'> <img src='z'> 。", "点击图标删除。"),
        ("点击图标 <img src='x'>", "点击图标"),
        ("按 F5 键 \n，再按「 Enter」键。 完成。", "按 F5 键，再按「Enter」键。完成。"),
    ],
)
def test_pictures_and_line_breaks_part_words_only(inside, expected):
    assert texts(f'<p id="a">{inside}</p>') == [expected]


def test_every_kind_of_white_space_becomes_one_space():
    spaces = "\t\r\n\x0b\x0c\x85\u00a0\u2028\u3000 "
    assert normalized(f"{spaces}a{spaces}b\u200bc\ufeff\u00add{spaces}") == "a bcd"
