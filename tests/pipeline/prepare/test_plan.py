import itertools

import pytest

from models.errors import UserError
from pipeline.experiment import DataSection
from pipeline.prepare import inspection
from pipeline.prepare.plan import inspect_inputs, list_inputs, list_splits
from pipeline.prepare.readers import make_reader


def parallel(tmp_path, source, target):
    (tmp_path / "s").write_bytes(source)
    (tmp_path / "t").write_bytes(target)
    return {"source": str(tmp_path / "s"), "target": str(tmp_path / "t")}


def test_blocks_hold_every_line_once_and_in_step(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "BLOCK_LINES", 3)
    source = b"".join(b"%d\n" % number for number in range(1, 11))
    target = b"\xef\xbb\xbf" + b"".join(b"%d\r\n" % (number * 1000) for number in range(1, 11))
    data = DataSection(train=[parallel(tmp_path, source, target)])
    (inspected,) = inspect_inputs(data, tmp_path)
    blocks = inspected.blocks()
    assert [block.first_line for block in blocks] == [1, 4, 7, 10]
    reader = make_reader(inspected.corpus)
    rows = list(itertools.chain.from_iterable(reader.rows(block) for block in blocks))
    assert rows == [(n, (b"%d" % n, b"%d" % (n * 1000))) for n in range(1, 11)]
    assert len({block.name for block in blocks}) == len(blocks)


@pytest.mark.parametrize("target, lines", [(b"a\nb\n", 2), (b"a\nb\nc\nd", 4)])
def test_unequal_line_counts_are_refused_with_names_and_counts(tmp_path, target, lines):
    data = DataSection(train=[parallel(tmp_path, b"a\nb\nc\n", target)])
    with pytest.raises(UserError) as error:
        list(inspect_inputs(data, tmp_path))
    for part in ("data.train[0]", f"{tmp_path}/s has 3 lines", f"{tmp_path}/t has {lines}"):
        assert part in str(error.value)


def test_inputs_are_numbered_over_all_splits():
    corpus = {"format": "tsv", "path": "x"}
    data = DataSection(train=[corpus, corpus], test=[corpus])
    assert [(split, position) for split, position, _ in list_inputs(data)] == [
        ("train", 0),
        ("train", 1),
        ("test", 0),
    ]


def test_held_out_shares_are_splits():
    data = DataSection(train=[{"format": "tsv", "path": "x"}], hold_out={"test": 0.1})
    assert list_splits(data) == ["train", "test"]
