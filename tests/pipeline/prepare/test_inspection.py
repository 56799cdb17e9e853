import gzip
import os

import pytest

from models.errors import UserError
from pipeline.prepare import inspection
from pipeline.prepare.inspection import inspect_file


def look(tmp_path, data, name="corpus.txt"):
    path = tmp_path / name
    path.write_bytes(data)
    return inspect_file(str(path), tmp_path / "unpacked")


def complaint(tmp_path, data, name="corpus.txt"):
    with pytest.raises(UserError) as error:
        look(tmp_path, data, name)
    assert str(tmp_path / name) in str(error.value)
    return str(error.value)


def test_lines_and_offsets(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "BLOCK_LINES", 2)
    facts = look(tmp_path, b"a\nbb\nccc\ndd\ne")
    assert facts.lines == 5
    assert facts.offsets == (0, 5, 12, 13)
    assert facts.bytes == 13


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    facts = look(tmp_path, b"\xef\xbb\xbfa\nb\n")
    assert facts.lines == 2
    assert facts.offsets == (3, 7)


def test_other_separators_make_no_lines(tmp_path):
    assert look(tmp_path, "a\u2028b\u0085c\x0bd\x0ce\rf\n".encode()).lines == 1


def test_gzip_is_unpacked_and_hashed_packed(tmp_path):
    packed = gzip.compress(b"\xef\xbb\xbfa\nb\n", mtime=0)
    facts = look(tmp_path, packed, "corpus.txt.gz")
    assert (facts.lines, facts.offsets) == (2, (3, 7))
    assert (tmp_path / "unpacked").read_bytes() == b"\xef\xbb\xbfa\nb\n"
    assert facts.bytes == len(packed)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path, data):
    assert "empty file" in complaint(tmp_path, data)


def test_an_empty_gzip_is_refused(tmp_path):
    assert "empty file" in complaint(tmp_path, gzip.compress(b""), "corpus.gz")


def test_a_torn_gzip_is_refused(tmp_path):
    packed = gzip.compress(os.urandom(10_000))
    assert "not a whole gzip" in complaint(tmp_path, packed[:5000], "corpus.gz")


def test_plain_text_named_gz_is_refused(tmp_path):
    assert "not a whole gzip" in complaint(tmp_path, b"a\nb\n", "corpus.gz")


def test_gzip_named_as_plain_text_is_refused(tmp_path):
    packed = gzip.compress(os.urandom(10_000))
    assert "ends in .gz" in complaint(tmp_path, packed)


def test_zip_is_refused(tmp_path):
    assert "zip" in complaint(tmp_path, b"PK", "corpus.zip")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="absent.txt: no such file"):
        inspect_file(str(tmp_path / "absent.txt"), tmp_path / "unpacked")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="a folder"):
        inspect_file(str(tmp_path), tmp_path / "unpacked")


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        inspect_file(str(tmp_path / "pipe"), tmp_path / "unpacked")


CHINESE = "你好，世界。\n今天天气很好。\n我不知道。\n"


@pytest.mark.parametrize(
    "text, encoding, hint",
    [
        (CHINESE, "gbk", "iconv -f GBK -t UTF-8"),
        (CHINESE, "utf-16", "iconv -f UTF-16LE -t UTF-8"),
        ("hello\nworld\nhow are you\n", "utf-16-le", "iconv -f UTF-16LE -t UTF-8"),
        ("hello\nworld\nhow are you\n", "utf-16-be", "iconv -f UTF-16BE -t UTF-8"),
        ("été\nforêt où\nça va, élève\n", "cp1252", "iconv -f WINDOWS-1252 -t UTF-8"),
    ],
)
def test_another_encoding_is_refused_with_a_hint(tmp_path, text, encoding, hint):
    message = complaint(tmp_path, text.encode(encoding))
    assert "line 1: not UTF-8" in message
    assert hint in message


def test_the_hint_for_a_packed_file_unpacks_it(tmp_path):
    message = complaint(tmp_path, gzip.compress(CHINESE.encode("gbk")), "corpus.gz")
    assert f"zcat {tmp_path / 'corpus.gz'} | iconv -f GBK" in message


def test_a_few_broken_lines_are_no_reason_to_refuse(tmp_path):
    assert look(tmp_path, b"a\nb\n\xff\xfe\nc\n").lines == 4
