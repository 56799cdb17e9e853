"""CoNLL-U: sentences to words and tags, documents to texts and genres."""

import pytest

from models.errors import UserError
from pipeline.experiment import CorpusFile, DataSection
from pipeline.experiment_file import load_experiment
from pipeline.prepare.inspection import inspect_file
from pipeline.prepare.plan import inspect_inputs
from pipeline.prepare.readers import make_reader
from pipeline.prepare.reasons import BROKEN_CONLLU, INVALID_UTF8, NO_IDENTITY, Dropped
from pipeline.prepare.report import Report
from pipeline.prepare.selection import PairSelection


def word(number, form, upos="NOUN", xpos="NN", lemma="_"):
    return f"{number}\t{form}\t{lemma}\t{upos}\t{xpos}\t_\t0\troot\t_\t_\n"


FIRST = (
    "# newdoc id = weblog-one\n# sent_id = weblog-one-1\n# text = I can't.\n"
    + word(1, "I", "PRON", "PRP")
    + word("2-3", "can't", "_", "_")
    + word(2, "ca", "AUX", "MD")
    + word(3, "n't", "PART", "RB")
    + word("3.1", "ghost", "VERB", "VB")
    + word(4, ".", "PUNCT", ".")
    + "\n"
)
SECOND = "# sent_id = weblog-one-2\n" + word(1, "Rain", "NOUN") + "\n"
THIRD = "# newdoc id = email-two\n# sent_id = email-two-1\n" + word(1, "Hi", "INTJ") + "\n"


def pairs(tmp_path, text, **keys):
    """What comes of a file: (line, source, target), and what is dropped: reason to lines."""
    path = tmp_path / "corpus.conllu"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    corpus = CorpusFile(format="conllu", path=str(path), **keys)
    data = DataSection(train=[corpus])
    (inspected,) = inspect_inputs(data, tmp_path)
    report = Report()
    selection = PairSelection(data, [("train", corpus)], seed=1)
    found = [
        (pair.line, pair.source.decode(), pair.target.decode())
        for block in inspected.blocks()
        for pair in selection.pairs(block, report)
    ]
    dropped = {
        reason: drops.first_lines for reason, drops in report.tallies[0, "train"].dropped.items()
    }
    return found, dropped


WORDS = [
    (1, "I ca n't .", "PRON AUX PART PUNCT"),
    (11, "Rain", "NOUN"),
    (14, "Hi", "INTJ"),
]


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("head", ["", "\ufeff"], ids=["plain", "bom"])
@pytest.mark.parametrize("tail", ["", "\n\n", "# a last remark\n"], ids=["end", "blanks", "remark"])
def test_sentences_without_ranges_and_empty_nodes(tmp_path, end, head, tail):
    text = head + (FIRST + SECOND + THIRD + tail).replace("\n", end)
    assert pairs(tmp_path, text) == (WORDS, {})


def test_the_last_blank_line_may_be_missing(tmp_path):
    text = (FIRST + SECOND + THIRD).rstrip("\n")
    assert pairs(tmp_path, text) == (WORDS, {})
    documents = pairs(tmp_path, text, unit="document", label="genre")[0]
    assert [each[0] for each in documents] == [1, 14]


def test_columns_by_name(tmp_path):
    assert pairs(tmp_path, FIRST, column="xpos")[0][0][2] == "PRP MD RB ."
    assert pairs(tmp_path, word(1, "ran", lemma="run"), column="lemma")[0] == [(1, "ran", "run")]


def test_spaces_and_separators_inside_a_word_become_no_break_spaces(tmp_path):
    text = word(1, "10 000") + word(2, "a\u2028b\u2029c")
    assert pairs(tmp_path, text)[0] == [(1, "10\u00a0000 a\u00a0b\u00a0c", "NOUN NOUN")]


def test_documents_are_their_sentences_and_the_genre_of_their_id(tmp_path):
    found, dropped = pairs(tmp_path, FIRST + SECOND + THIRD, unit="document", label="genre")
    assert found == [(1, "I can't. \u2028 Rain", "weblog"), (14, "Hi", "email")]
    assert dropped == {}


def test_sentences_with_the_genre_of_theirs(tmp_path):
    found, _ = pairs(tmp_path, FIRST + SECOND + THIRD, label="genre")
    assert [each[1:] for each in found] == [
        ("I can't.", "weblog"),
        ("Rain", "weblog"),
        ("Hi", "email"),
    ]


def test_a_document_may_begin_below_other_comments(tmp_path):
    text = SECOND + "# sent_id = x-1\n# newdoc id = answers-1\n" + word(1, "Yes")
    found, dropped = pairs(tmp_path, text, unit="document", label="genre")
    assert found == [(5, "Yes", "answers")]
    assert dropped == {NO_IDENTITY: [1]}


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        (SECOND + "1\tno columns\n\n", BROKEN_CONLLU, 4),
        (SECOND + word(1, "a") + word(3, "b"), BROKEN_CONLLU, 5),
        # The blank line between two sentences is missing.
        (SECOND + word(1, "a") + word(1, "b"), BROKEN_CONLLU, 5),
        (SECOND + word(1, ""), BROKEN_CONLLU, 4),
        (SECOND + word(1, "a", upos=""), BROKEN_CONLLU, 4),
        ((SECOND + word(1, "XX")).encode().replace(b"XX", b"\xff"), INVALID_UTF8, 4),
    ],
)
def test_broken_sentences_are_dropped_by_the_line_that_is(tmp_path, text, reason, line):
    found, dropped = pairs(tmp_path, text)
    assert [each[1] for each in found] == ["Rain"]
    assert dropped == {reason: [line]}


def test_a_broken_line_costs_its_document(tmp_path):
    text = FIRST + SECOND.replace("1\tRain", "2\tRain") + THIRD
    found, dropped = pairs(tmp_path, text, unit="document", label="genre")
    assert [each[2] for each in found] == ["email"]
    assert dropped == {BROKEN_CONLLU: [12]}


@pytest.mark.parametrize("identity", ["", "-one"])
def test_an_id_without_a_genre(identity):
    corpus = CorpusFile(format="conllu", path="x", label="genre")
    lines = [f"# sent_id = {identity}".encode(), word(1, "a").rstrip("\n").encode()]
    with pytest.raises(Dropped) as dropped:
        make_reader(corpus).sides(lines)
    assert dropped.value.reason == NO_IDENTITY


def test_no_block_parts_a_record(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.prepare.inspection.BLOCK_LINES", 3)
    for keys in ({}, {"unit": "document", "label": "genre"}):
        text = (FIRST + SECOND + THIRD) * 5
        whole = pairs(tmp_path, text, **keys)[0]
        assert len(whole) == (10 if keys else 15)
        assert [each[1:] for each in whole] == [each[1:] for each in whole[: len(whole) // 5]] * 5


def test_blocks_are_cut_between_records(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.prepare.inspection.BLOCK_LINES", 3)
    path = tmp_path / "corpus.conllu"
    path.write_text(FIRST + SECOND + THIRD)
    reader = make_reader(CorpusFile(format="conllu", path=str(path)))
    assert inspect_file(str(path), tmp_path / "x", reader.starts).first_lines == (1, 11, 14)


EXPERIMENT = """\
name: x
data: {{train: [{{format: conllu, path: x{keys}}}]}}
model: {{task: {task}}}
"""


@pytest.mark.parametrize(
    ("task", "keys", "message"),
    [
        ("tagging", ", label: genre", "label 'genre' is one for a whole record"),
        ("classification", "", "has a tag a word.*set label to genre"),
        ("classification", ", unit: document", "unit 'document' has no tags; set label"),
    ],
)
def test_keys_that_do_not_fit_the_task(tmp_path, task, keys, message):
    path = tmp_path / "x.yaml"
    path.write_text(EXPERIMENT.format(task=task, keys=keys))
    with pytest.raises(UserError, match=message):
        load_experiment(path)
