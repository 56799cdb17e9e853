import pytest
from help_pages import Kind, Paragraph
from help_pairs import PairCollector, Reason, aligned, reason_to_drop


def paragraph(identifier, text, kind=Kind.TEXT):
    return Paragraph(identifier, text, kind)


def collected(english, translated, chinese=True):
    collector = PairCollector(chinese)
    collector.add_page(english, translated)
    return collector


def html(**paragraphs):
    return "".join(f'<p id="{name}">{text}</p>' for name, text in paragraphs.items())


def test_pages_match_by_path_and_paragraphs_by_id():
    collector = PairCollector(chinese=True)
    english = {
        "text/b.html": html(p1="Open the file.", p2="Close the file."),
        "text/a.html": html(p1="Help window"),
        "text/only.html": html(p1="Not translated yet", p2="Nor is this"),
    }
    chinese = {
        "text/a.html": html(p1="帮助窗口"),
        "text/b.html": html(p1="打开文件。", p2="关闭文件。"),
    }
    collector.add_pages(english, chinese)
    assert list(collector.pairs) == [
        ("Help window", "帮助窗口"),
        ("Open the file.", "打开文件。"),
        ("Close the file.", "关闭文件。"),
    ]
    assert collector.dropped == {Reason.UNMATCHED: 2}


def test_an_id_that_recurs_matches_by_place_where_the_pages_have_one_order():
    english = [paragraph("x", "File"), paragraph("y", "Menu"), paragraph("x", "Edit")]
    chinese = [paragraph("x", "文件"), paragraph("y", "菜单"), paragraph("x", "编辑")]
    assert list(aligned(english, chinese)) == list(zip(english, chinese, strict=True))


def test_in_a_page_sorted_by_language_an_id_of_two_texts_matches_nothing():
    english = [
        paragraph("x", "File"),
        paragraph("y", "Menu"),
        paragraph("x", "Edit"),
        paragraph("z", "See also"),
        paragraph("z", "See also"),
    ]
    chinese = [
        paragraph("z", "另请参见"),
        paragraph("x", "编辑"),
        paragraph("z", "另请参见"),
        paragraph("x", "文件"),
        paragraph("y", "菜单"),
    ]
    collector = collected(english, chinese)
    assert list(collector.pairs) == [("Menu", "菜单"), ("See also", "另请参见")]
    assert collector.dropped == {Reason.UNMATCHED: 2, Reason.DUPLICATE: 1}


def test_an_id_missing_in_the_translation_matches_nothing():
    english = [paragraph("x", "File menu"), paragraph("y", "New text")]
    collector = collected(english, [paragraph("x", "文件菜单")])
    assert list(collector.pairs) == [("File menu", "文件菜单")]
    assert collector.dropped == {Reason.UNMATCHED: 1}


@pytest.mark.parametrize(
    ("english", "chinese", "reason"),
    [
        (paragraph(None, "Contents"), paragraph(None, "目录"), Reason.NO_IDENTIFIER),
        (paragraph("x", "Quit", Kind.MACOS), paragraph("x", "退出", Kind.MACOS), Reason.MACOS),
        (paragraph("x", "a over b", Kind.CODE), paragraph("x", "一"), Reason.CODE),
        (paragraph("x", ">>> input(a) # method"), paragraph("x", ">>> 方法"), Reason.CODE),
        (paragraph("x", '<A HREF="u">Note</A>'), paragraph("x", "<A>批注</A>"), Reason.CODE),
        (paragraph("x", ""), paragraph("x", "图标"), Reason.EMPTY),
        (paragraph("x", "12.5 %"), paragraph("x", "百分之十二"), Reason.EMPTY),
        (paragraph("x", "Save"), paragraph("x", "Save"), Reason.UNTRANSLATED),
        (paragraph("x", "LENB(中) is 2"), paragraph("x", "LENB(中) is 2"), Reason.UNTRANSLATED),
    ],
)
def test_what_gives_no_pair_is_counted_by_reason(english, chinese, reason):
    collector = collected([english], [chinese])
    assert (list(collector.pairs), collector.dropped) == ([], {reason: 1})


def test_less_than_and_replacement_marks_are_not_program_text():
    english = [paragraph("x", "<= (Less than)"), paragraph("y", "<Replacement Suggestions>")]
    chinese = [paragraph("x", "<= (小于)"), paragraph("y", "<替换建议>")]
    assert len(collected(english, chinese).pairs) == 2


@pytest.mark.parametrize(
    ("english", "translation", "chinese", "reason"),
    [
        ("Save the file", "保存文件", True, None),
        ("Save the file", "Save the file", True, Reason.UNTRANSLATED),
        ("See also ROUND, ROUNDUP, ROUNDDOWN, MROUND, CEILING", "参 ROUND, ROUNDUP, ROUNDDOWN, "
         "MROUND, CEILING", True, Reason.UNTRANSLATED),
        ("Press Ctrl+Shift+F5", "按 Ctrl+Shift+F5 组合键", True, None),
        ("=GAUSS(0.19)", "=GAUSS(0,19)", False, Reason.UNTRANSLATED),
        ("HTML Tag", "HTML-Tag", False, Reason.UNTRANSLATED),
        ("Cursor Position", "Cursorposition", False, None),
        ("Save", "Enregistrer", False, None),
        ("Creating images", "创建活动\x97像", True, Reason.DAMAGED),
        ("Creating images", "创建活动\ufffd像", True, Reason.DAMAGED),
        ("Creating images", "创建活动¾像", True, Reason.DAMAGED),
        ("The sign ¾ is a fraction", "符号 ¾ 是分数", True, None),
        ("The word is quoted", "Le mot « cité »", False, None),
    ],
)  # fmt: skip
def test_texts_that_are_no_use_as_a_pair(english, translation, chinese, reason):
    assert reason_to_drop(english, translation, chinese) is reason


def test_a_side_far_longer_than_the_other_is_dropped_only_when_long():
    assert reason_to_drop("Back", "Retour à la page", False) is None
    longer = "Cette page décrit bien d'autres choses que la simple commande de la version anglaise"
    assert reason_to_drop("Prints the page.", longer, False) is Reason.LENGTH
    assert reason_to_drop(longer, "Prints the page.", False) is Reason.LENGTH


def test_a_chinese_character_counts_for_three_letters():
    english = "Enter the amount of space that you want to leave between the text and its border."
    assert reason_to_drop(english, "请输入文字与边框之间的间距大小。", True) is None
    assert reason_to_drop("Click the tab.", "大多数工具只对已事先选中的对象有效。" * 2, True)


def test_every_paragraph_read_is_kept_or_counted_as_dropped():
    english = [
        paragraph("x", "File"),
        paragraph("x", "File"),
        paragraph("y", "1"),
        paragraph(None, ""),
    ]
    chinese = [
        paragraph("x", "文件"),
        paragraph("x", "文件"),
        paragraph("y", "一"),
        paragraph(None, ""),
    ]
    collector = collected(english, chinese)
    assert collector.read == len(english)
    assert collector.read == len(collector.pairs) + collector.dropped.total()
