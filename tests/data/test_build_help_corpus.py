import collections
import gzip
import os
import pathlib
import subprocess
import sys

import pytest
from build_help_corpus import CORPORA, SPLITS, build, compressed, publish, split_of, split_pairs
from rich.console import Console

from models.errors import UserError

PROJECT = pathlib.Path(__file__).parents[2]
NUMBERS = range(300)


def page(sentence):
    return "".join(f'<p id="par_{n}">{sentence.format(n)}</p>' for n in NUMBERS)


@pytest.fixture
def packages(tmp_path, write_package):
    folder = tmp_path / "packages"
    folder.mkdir()
    write_package(folder, "en-us", {"text/a.html": page("Open row {} now.")})
    write_package(folder, "zh-cn", {"text/a.html": page("现在打开第 {} 行。")})
    write_package(folder, "fr", {"text/a.html": page("Ouvrez la ligne {}.")})
    return folder


def read(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [tuple(line.rstrip("\n").split("\t")) for line in file]


def build_quietly(language, packages, out):
    with open(os.devnull, "w") as nowhere:
        build(CORPORA[language], packages, out, Console(file=nowhere))


def test_chinese_is_the_source_and_english_the_target(packages, tmp_path):
    build_quietly("zh-cn", packages, tmp_path)
    pairs = [pair for split in SPLITS for pair in read(tmp_path / f"help.zh-en.{split}.tsv.gz")]
    assert sorted(pairs) == sorted((f"现在打开第 {n} 行。", f"Open row {n} now.") for n in NUMBERS)


def test_english_is_the_source_beside_french(packages, tmp_path):
    build_quietly("fr", packages, tmp_path)
    pairs = [pair for split in SPLITS for pair in read(tmp_path / f"help.en-fr.{split}.tsv.gz")]
    assert sorted(pairs) == sorted((f"Open row {n} now.", f"Ouvrez la ligne {n}.") for n in NUMBERS)


def test_the_same_packages_give_the_same_bytes(packages, tmp_path):
    for name in ("one", "two"):
        build_quietly("zh-cn", packages, tmp_path / name)
    for split in SPLITS:
        name = f"help.zh-en.{split}.tsv.gz"
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_gzip_file_holds_neither_time_nor_name():
    content = compressed([("来源", "target")])
    flags, time = content[3], content[4:8]
    assert (flags, time) == (0, bytes(4))
    assert gzip.decompress(content).decode("utf-8") == "来源\ttarget\n"


def test_no_source_stands_in_two_splits_and_order_is_kept():
    pairs = [(f"Source {n % 500}", f"Target {n}") for n in range(2000)]
    splits = split_pairs(pairs)
    homes = collections.defaultdict(set)
    for split, members in splits.items():
        assert members == sorted(members, key=pairs.index)
        for source, _ in members:
            homes[source].add(split)
    assert {len(found) for found in homes.values()} == {1}
    assert sum(map(len, splits.values())) == len(pairs)


def test_the_shares_of_the_splits():
    counts = collections.Counter(split_of(f"Sentence number {n}.") for n in range(20_000))
    assert 700 < counts["valid"] < 980
    assert 700 < counts["test"] < 980


@pytest.mark.parametrize("n", range(40))
def test_case_and_width_do_not_change_the_split(n):
    assert split_of(f"press f{n}: ok") == split_of(f"Press F{n}： ＯＫ")


def test_packages_of_two_versions_are_refused(packages, tmp_path, write_package):
    (path,) = packages.glob("*zh-cn*")
    path.unlink()
    write_package(packages, "zh-cn", {"text/a.html": page("第 {} 行")}, version="4:7.5.0-1")
    with pytest.raises(UserError, match="4:7.4.7-1 and libreoffice-help-zh-cn 4:7.5.0-1"):
        build_quietly("zh-cn", packages, tmp_path)


def test_a_failed_write_leaves_the_old_files_and_nothing_else(tmp_path):
    old = tmp_path / "a.gz"
    old.write_bytes(b"old")
    (tmp_path / "blocked").write_bytes(b"a file, not a folder")
    with pytest.raises(UserError, match="--out: cannot write .*blocked"):
        publish({old: b"new", tmp_path / "blocked" / "b.gz": b"new"})
    assert old.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gz", "blocked"]


def run(*arguments):
    command = [sys.executable, str(PROJECT / "data" / "build_help_corpus.py"), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_command_says_what_it_read_dropped_and_wrote(packages, tmp_path):
    out = tmp_path / "out"
    finished = run("--target", "zh-cn", "--out", out, "--packages", packages)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "libreoffice-help-zh-cn 4:7.4.7-1: 1 pages" in finished.stdout
    train = read(out / "help.zh-en.train.tsv.gz")
    assert f"{out}/help.zh-en.train.tsv.gz: {len(train)} pairs" in finished.stdout
    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"help.zh-en.{split}.tsv.gz" for split in SPLITS
    )


@pytest.mark.parametrize(
    ("target", "folder", "expected"),
    [
        ("klingon", "packages", "--target: 'klingon' is not one of zh-cn, fr, de"),
        ("de", "packages", "no file libreoffice-help-de_*.deb"),
        ("de", "nowhere", "nowhere is not a folder"),
    ],
)
def test_a_mistake_is_one_line_and_status_two(packages, tmp_path, target, folder, expected):
    finished = run("--target", target, "--out", tmp_path, "--packages", tmp_path / folder)
    assert finished.returncode == 2
    assert expected in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert not list(tmp_path.glob("help.*"))
