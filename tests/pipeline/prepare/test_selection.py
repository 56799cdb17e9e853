import pytest

from pipeline.experiment import CorpusFile, DataSection
from pipeline.prepare.reading import Block, ByteRange
from pipeline.prepare.report import Report
from pipeline.prepare.selection import PairSelection, hold_out_splits
from pipeline.prepare.sentences import join_question


def select(tmp_path, text, split="train", **keys):
    path = tmp_path / "corpus.tsv"
    path.write_bytes(text)
    corpus = CorpusFile(format="tsv", path=str(path))
    data = DataSection(train=[corpus], **keys)
    report = Report()
    block = Block(0, 1, (ByteRange(str(path), 0, len(text)),))
    pairs = list(PairSelection(data, [(split, corpus)], seed=3).pairs(block, report))
    return pairs, report


def test_pairs_and_drops_with_their_lines(tmp_path):
    pairs, report = select(tmp_path, b"a\tb\nalone\n\nc\x0b\td\n\xff\te\nf\tg\n")
    assert [(pair.line, pair.source, pair.target) for pair in pairs] == [
        (1, b"a", b"b"),
        (6, b"f", b"g"),
    ]
    tally = report.tallies[0, "train"]
    assert tally.pairs_in == 6
    assert {reason: drops.first_lines for reason, drops in tally.dropped.items()} == {
        "missing_column": [2],
        "empty": [3],
        "control_characters": [4],
        "invalid_utf8": [5],
    }


def test_identical_sides_go_only_if_asked_and_only_in_training(tmp_path):
    text = b"a\ta\n"
    asked = {"cleaning": {"drop_identical": True}}
    assert len(select(tmp_path, text)[0]) == 1
    assert len(select(tmp_path, text, **asked)[0]) == 0
    assert len(select(tmp_path, text, split="test", **asked)[0]) == 1


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sentence_is_held_out_whole_and_shares_are_kept(side):
    corpus = CorpusFile(format="tsv", path="x")
    hold_out = {"valid": 0.2, "test": 0.1, "side": side}
    split_of = hold_out_splits(DataSection(train=[corpus], hold_out=hold_out), 1, 0)
    splits = {}
    counts = {"train": 0, "valid": 0, "test": 0}
    for number in range(3000):
        pair = [b"%d" % (number // 3), b"x%d" % number]
        if side == "target":
            pair.reverse()
        split = split_of(number, *pair)
        counts[split] += 1
        assert splits.setdefault(number // 3, split) == split
    assert 450 < counts["valid"] < 750
    assert 200 < counts["test"] < 400


def test_texts_without_a_source_are_held_out_by_themselves():
    data = DataSection(
        train=[CorpusFile(format="text", path="x")], hold_out={"valid": 0.2, "test": 0.1}
    )
    split_of = hold_out_splits(data, 1, 0)
    splits = [split_of(number, b"", b"%d" % number) for number in range(1000)]
    assert 150 < splits.count("valid") < 250
    assert 65 < splits.count("test") < 135


def test_another_seed_holds_out_others():
    corpus = CorpusFile(format="tsv", path="x")
    data = DataSection(train=[corpus], hold_out={"valid": 0.5})
    one, other = hold_out_splits(data, 1, 0), hold_out_splits(data, 2, 0)
    sentences = [b"%d" % number for number in range(100)]
    assert [one(1, s, s) for s in sentences] != [other(1, s, s) for s in sentences]
    assert [one(1, s, s) for s in sentences] == [
        hold_out_splits(data, 1, 0)(2, s, s) for s in sentences
    ]


def test_lines_in_their_order_are_held_out_by_runs():
    data = DataSection(
        train=[CorpusFile(format="text", path="x")],
        order="corpus",
        cleaning={"drop_duplicates": False},
        hold_out={"valid": 0.3},
    )
    split_of = hold_out_splits(data, 1, 0)
    splits = [split_of(line, b"", b"same") for line in range(256 * 40)]
    assert all(len(set(splits[start : start + 256])) == 1 for start in range(0, len(splits), 256))
    assert 0.1 < splits.count("valid") / len(splits) < 0.5


def test_a_task_without_source_keeps_the_target_alone(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xff\tgood\nbad\t\n")
    corpus = CorpusFile(format="tsv", path=str(path))
    data = DataSection(train=[corpus])
    selection = PairSelection(data, [("train", corpus)], 1, ("target",))
    block = Block(0, 1, (ByteRange(str(path), 0, path.stat().st_size),))
    report = Report()
    [pair] = selection.pairs(block, report)
    assert (pair.source, pair.target) == (b"", b"good")
    assert report.split_tally("train").dropped["empty"].pairs == 1


def test_all_questions_about_a_picture_are_held_out_together():
    corpus = CorpusFile(format="documents", path="x", question_key="question")
    hold_out = {"valid": 0.2, "test": 0.1}
    data = DataSection(train=[corpus], hold_out=hold_out)
    splits = {}
    for by_picture, kinds in ((True, 1), (False, 3)):
        split_of = hold_out_splits(data, 1, 0, by_picture)
        for number in range(900):
            source = join_question(b"%d.png" % (number // 30), b"question %d ?" % number)
            splits.setdefault((by_picture, number // 30), set()).add(split_of(0, source, b"yes"))
        found = [len(each) for (by, _), each in splits.items() if by == by_picture]
        assert max(found) == kinds
    assert set.union(*(each for (by, _), each in splits.items() if by)) == {
        "train",
        "valid",
        "test",
    }
