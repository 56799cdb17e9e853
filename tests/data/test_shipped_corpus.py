"""The corpus files of the project are what `data/README.md` says."""

import gzip
import re

import pytest
from build_help_corpus import SPLITS, split_of

HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture
def corpus(data_folder):
    """Lines by split, read strictly."""
    lines = {}
    for split in SPLITS:
        content = gzip.decompress((data_folder / f"help.zh-en.{split}.tsv.gz").read_bytes())
        text = content.decode("utf-8", errors="strict")
        assert text.endswith("\n")
        lines[split] = text.removesuffix("\n").split("\n")
    return lines


def test_each_line_is_a_chinese_text_a_tab_and_an_english_text(corpus):
    for lines in corpus.values():
        for line in lines:
            assert line.count("\t") == 1, line
            source, target = line.split("\t")
            assert HAN.search(source), line
            assert re.search("[A-Za-z]", target), line
            assert (source, target) == (" ".join(source.split()), " ".join(target.split()))


def test_no_pair_stands_twice(corpus):
    lines = [line for split in SPLITS for line in corpus[split]]
    assert len(set(lines)) == len(lines)


def test_no_source_stands_in_two_splits(corpus):
    sources = {
        split: {line.split("\t")[0].casefold() for line in corpus[split]} for split in SPLITS
    }
    assert not sources["train"] & sources["valid"]
    assert not sources["train"] & sources["test"]
    assert not sources["valid"] & sources["test"]


def test_each_source_stands_in_the_split_of_its_hash(corpus):
    for split, lines in corpus.items():
        assert {split_of(line.split("\t")[0]) for line in lines} == {split}


def test_the_counts_are_those_of_the_readme(corpus, data_folder):
    readme = (data_folder / "README.md").read_text(encoding="utf-8")
    for split, lines in corpus.items():
        path = data_folder / f"help.zh-en.{split}.tsv.gz"
        sources = len({line.split("\t")[0] for line in lines})
        row = f"| `{path.name}` | {len(lines)} | {sources} | {path.stat().st_size} |"
        assert row in readme
    kept = sum(map(len, corpus.values()))
    assert re.search(rf"^\| kept \| {kept} \|", readme, re.MULTILINE)


def test_in_the_readme_kept_and_dropped_add_up_to_read(data_folder):
    readme = (data_folder / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (read|dropped|kept)\b[^|]*\| (\d+) \| (\d+) \| (\d+) \|$", readme, re.M)
    for column in (1, 2, 3):
        numbers = [int(row[column]) for row in rows]
        assert numbers[0] == sum(numbers[1:])
    assert len(rows) == 11


def test_the_licence_lies_beside_the_files(data_folder):
    licence = (data_folder / "LICENSE-MPL-2.0").read_text(encoding="utf-8")
    assert licence.startswith("Mozilla Public License Version 2.0")
    assert "Exhibit A" in licence
