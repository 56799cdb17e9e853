import itertools
import json

import pytest

from models.errors import UserError
from pipeline.experiment import CorpusFile
from pipeline.prepare import inspection
from pipeline.prepare.readers import make_reader
from pipeline.prepare.reading import Block, ByteRange, GroupReader, read_lines
from pipeline.prepare.reasons import (
    BROKEN_JSON,
    INVALID_UTF8,
    MISSING_COLUMN,
    MISSING_KEY,
    NOT_A_STRING,
    Dropped,
)

SEPARATED = "a\u2028b\u0085c\x0bd\x0ce\u2029f".encode()


def lines_of(path, data):
    path.write_bytes(data)
    return read_lines(ByteRange(str(path), 0, len(data)))


@pytest.mark.parametrize(
    "data, lines",
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\nb\n", [b"", b"", b"b"]),
        (b"a\r\r\n", [b"a\r"]),
        (
            "a\u2028b\u0085c\x0bd\x0ce\u2029f\n".encode(),
            ["a\u2028b\u0085c\x0bd\x0ce\u2029f".encode()],
        ),
    ],
)
def test_lines_end_at_line_feeds_alone(tmp_path, data, lines):
    assert lines_of(tmp_path / "text", data) == lines


def test_a_file_that_became_shorter_is_told_to_the_user(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\n")
    with pytest.raises(UserError, match="text: became shorter"):
        read_lines(ByteRange(str(path), 0, 10))


def test_parallel_reads_line_n_of_both_files(tmp_path):
    (tmp_path / "en").write_bytes(b"skipped\none\ntwo\n")
    (tmp_path / "fr").write_bytes(b"saute\nun\ndeux\n")
    corpus = CorpusFile(source=str(tmp_path / "en"), target=str(tmp_path / "fr"))
    reader = make_reader(corpus)
    source, target = reader.paths()
    ranges = (ByteRange(source, 8, 16), ByteRange(target, 6, 14))
    rows = list(reader.rows(Block(0, 2, ranges)))
    assert [(line, reader.sides(row)) for line, row in rows] == [
        (2, (b"one", b"un")),
        (3, (b"two", b"deux")),
    ]


def tsv(**keys):
    return make_reader(CorpusFile(format="tsv", path="x", **keys))


def test_tsv_takes_the_columns_by_number():
    assert tsv().sides((b"a\tb\tc",)) == (b"a", b"b")
    assert tsv(source_column=3, target_column=1).sides((b"a\tb\tc",)) == (b"c", b"a")


def test_tsv_keeps_empty_columns_and_quotes():
    assert tsv().sides((b'\t"b"',)) == (b"", b'"b"')


def test_tsv_with_too_few_columns_is_dropped_under_its_reason():
    with pytest.raises(Dropped) as dropped:
        tsv(target_column=3).sides((b"a\tb",))
    assert dropped.value.reason == MISSING_COLUMN


@pytest.mark.parametrize("line", [b"", b"   "])
def test_a_blank_line_is_an_empty_pair(line):
    assert tsv().sides((line,)) == (b"", b"")
    assert jsonl().sides((line,)) == (b"", b"")


def jsonl(**keys):
    return make_reader(CorpusFile(format="jsonl", path="x", **keys))


def test_jsonl_takes_the_keys():
    line = json.dumps({"en": "a \u2028 b", "fr": "é", "other": 1}).encode()
    assert jsonl(source_key="en", target_key="fr").sides((line,)) == (
        "a \u2028 b".encode(),
        "é".encode(),
    )


@pytest.mark.parametrize(
    "line, reason",
    [
        (b"{", BROKEN_JSON),
        (b"[1, 2]", BROKEN_JSON),
        (b'"text"', BROKEN_JSON),
        (b"[" * 100_000, BROKEN_JSON),
        (b'{"source": "a"}', MISSING_KEY),
        (b'{"source": "a", "target": 3}', NOT_A_STRING),
        (b'{"source": null, "target": "a"}', NOT_A_STRING),
        (b'{"source": "\xff", "target": "a"}', INVALID_UTF8),
    ],
)
def test_jsonl_lines_are_dropped_under_their_reasons(line, reason):
    with pytest.raises(Dropped) as dropped:
        jsonl().sides((line,))
    assert dropped.value.reason == reason


def test_half_a_surrogate_pair_passes_as_bytes_that_are_not_utf8():
    source, _ = jsonl().sides((b'{"source": "\\ud800", "target": "a"}',))
    with pytest.raises(UnicodeDecodeError):
        source.decode("utf-8")


class Stanzas(GroupReader):
    """Records parted by blank lines."""

    @staticmethod
    def starts(before, line):
        return not before and bool(line)

    def sides(self, lines):
        return b"", b"|".join(lines)


def test_records_of_many_lines_are_never_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "BLOCK_LINES", 3)
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\n\nc\n\n\nd\ne\nf\ng\n\nh")
    facts = inspection.inspect_file(str(path), tmp_path / "unpacked", Stanzas.starts)
    assert facts.first_lines == (1, 4, 7, 12) and facts.lines == 12
    reader = Stanzas(CorpusFile(format="text", path=str(path)))
    found = []
    places = zip(facts.first_lines, itertools.pairwise(facts.offsets), strict=True)
    for first, (start, stop) in places:
        block = Block(0, first, (ByteRange(str(path), start, stop),))
        found += [(line, reader.sides(lines)[1]) for line, lines in reader.rows(block)]
    assert found == [(1, b"a|b|"), (4, b"c||"), (7, b"d|e|f|g|"), (12, b"h")]


def test_text_has_no_source():
    reader = make_reader(CorpusFile(format="text", path="x"))
    assert reader.paths() == ("x",)
    assert reader.sides((b" a line",)) == (b"", b" a line")
