import gzip
import io
import os
import pathlib

import pytest
import rich.console

from models.errors import UserError
from models.special_ids import END_ID
from pipeline.prepare.reasons import DESCRIPTIONS
from pipeline.prepare.run import prepare_timed
from pipeline.workspace import Workspace


def files_of(workspace):
    return {path.name: path.read_bytes() for path in workspace.data.iterdir()}


@pytest.fixture
def corpus(write_tsv, make_pairs):
    return {"format": "tsv", "path": write_tsv(make_pairs(200))}


CLUSTERS = {
    "in_memory": {"running_mode": "in_memory"},
    "threads": {"running_mode": "multi_threading", "workers": 2},
    "one process": {"running_mode": "multi_processing", "workers": 1},
    "two processes": {"running_mode": "multi_processing", "workers": 2},
}


def test_every_file_is_the_same_byte_for_byte_however_it_is_made(
    make_pairs, write_tsv, make_experiment, run
):
    pairs = make_pairs(6_000)
    first = {"format": "tsv", "path": write_tsv(pairs[:5_000] + pairs[:500], "one.tsv")}
    second = {"format": "tsv", "path": write_tsv(pairs[4_000:], "two.tsv")}
    data = {"hold_out": {"valid": 0.05}, "shards": 3, "evaluation_shards": 2}
    made = {
        name: files_of(run(make_experiment([first, second], data=data, cluster=cluster), name)[0])
        for name, cluster in CLUSTERS.items()
    }
    expected = made.pop("in_memory")
    assert len(expected) == 10  # 3 + 2 shards, 2 models, 2 counts, 1 manifest
    for name, files in made.items():
        assert files == expected, name


def test_another_seed_gives_another_order(corpus, make_experiment, run):
    one = files_of(run(make_experiment([corpus]), "one")[0])
    other = files_of(run(make_experiment([corpus], seed=2), "other")[0])
    assert set(one) == set(other)
    assert one["train-00000-of-00002.tfrecord"] != other["train-00000-of-00002.tfrecord"]


def test_packed_inputs_give_the_same_records(corpus, make_experiment, run, tmp_path):
    packed = tmp_path / "corpus.tsv.gz"
    packed.write_bytes(gzip.compress(pathlib.Path(corpus["path"]).read_bytes()))
    plain = files_of(run(make_experiment([corpus]), "plain")[0])
    unpacked = files_of(run(make_experiment([corpus | {"path": str(packed)}]), "packed")[0])
    del plain["manifest.json"], unpacked["manifest.json"]
    assert unpacked == plain


@pytest.mark.parametrize("compression, suffix", [("none", ""), ("gzip", ".gz")])
@pytest.mark.parametrize("shared", [False, True])
def test_records_hold_the_corpus(
    make_pairs, write_tsv, make_experiment, run, compression, suffix, shared
):
    tf = pytest.importorskip("tensorflow")
    from pipeline.prepare.records import feature_description
    from pipeline.prepare.tokenizers import SentencePieceTokenizer

    pairs = make_pairs(300)
    corpus = {"format": "tsv", "path": write_tsv(pairs)}
    experiment = make_experiment(
        [corpus],
        data={"compression": compression, "test": [corpus]},
        vocabulary={"shared": shared},
    )
    workspace, manifest, _ = run(experiment)
    names = ("shared", "shared") if shared else ("source", "target")
    source, target = (
        SentencePieceTokenizer(workspace.vocabulary(name).read_bytes()) for name in names
    )
    for split in ("train", "test"):
        shards = [str(path) for path in workspace.shards(split)]
        assert len(shards) == {"train": 2, "test": 1}[split]
        assert all(shard.endswith(f".tfrecord{suffix}") for shard in shards)
        kind = "GZIP" if suffix else ""
        records = list(tf.data.TFRecordDataset(shards, kind).as_numpy_iterator())
        parsed = tf.io.parse_example(records, feature_description())
        texts = list(zip(parsed["source_text"].numpy(), parsed["target_text"].numpy(), strict=True))
        lines = [int(name.rpartition(b":")[2]) for name in parsed["id"].numpy()]
        assert [tuple(side.decode() for side in pair) for pair in texts] == [
            pairs[line - 1] for line in lines
        ]
        assert sorted(lines) == list(range(1, 301))
        assert (lines == sorted(lines)) == (split == "test")
        assert parsed["source"].to_list() == source.encode([pair[0] for pair in texts])
        assert parsed["target"].to_list() == target.encode([pair[1] for pair in texts])


def counts(workspace, name):
    lines = workspace.counts(name).read_text(encoding="utf-8").split("\n")[:-1]
    return [int(line.split("\t")[1]) for line in lines]


def test_unigram_counts_are_of_the_training_records(corpus, make_experiment, run):
    workspace, manifest, _ = run(make_experiment([corpus], data={"hold_out": {"valid": 0.3}}))
    train = manifest["splits"]["train"]
    for side in ("source", "target"):
        of_side = counts(workspace, side)
        assert of_side[END_ID] == train["pairs_out"]
        assert sum(of_side) == train[side]["pieces"] + train["pairs_out"]
        assert len(counts(workspace, side)) == manifest["vocabularies"][side]["size"]


def test_a_shared_vocabulary_has_counts_of_each_side_and_of_both(corpus, make_experiment, run):
    workspace, manifest, _ = run(make_experiment([corpus], vocabulary={"shared": True}))
    assert set(manifest["vocabularies"]) == {"shared"}
    assert not workspace.vocabulary("source").exists()
    source, target, shared = (counts(workspace, name) for name in ("source", "target", "shared"))
    assert [a + b for a, b in zip(source, target, strict=True)] == shared
    assert len(shared) == manifest["vocabularies"]["shared"]["size"]


def test_every_reason_is_counted_and_shown_with_its_lines(
    make_pairs, write_tsv, make_experiment, run, tmp_path
):
    pairs = make_pairs(100)
    tsv = pathlib.Path(write_tsv(pairs))
    tsv.write_bytes(
        tsv.read_bytes()
        + b"alone\n"
        + b"\t\n"
        + b"tab\x0b\tle chat\n"
        + b"\xff\xfe\tle chat\n"
        + b"same\tsame\n"
        + ("cat " * 50 + "\tle chat\n").encode()
        + b"cat\tle chat le chat le chat le chat le chat\n"
        + "\u200b\tle chat\n".encode()
        + "\t".join(pairs[3]).encode()
        + b"\n"
    )
    jsonl = tmp_path / "corpus.jsonl"
    rows = ["{", '{"source": "a"}', '{"source": 1, "target": "b"}', '{"source":"a","target":"b"}']
    jsonl.write_text("\n".join(rows))
    cleaning = {
        "drop_identical": True,
        "max_source_length": 30,
        "max_target_length": 30,
        "max_length_ratio": 4.0,
    }
    inputs = [
        {"format": "tsv", "path": str(tsv)},
        {"format": "jsonl", "path": str(jsonl)},
    ]
    _, manifest, printed = run(make_experiment(inputs, data={"cleaning": cleaning}))
    dropped = {
        (described["name"], reason): drops["first_lines"]
        for described in manifest["inputs"]
        for reason, drops in described["splits"]["train"]["dropped"].items()
    }
    assert dropped == {
        ("train[0]", "missing_column"): [101],
        ("train[0]", "empty"): [102, 108],
        ("train[0]", "control_characters"): [103],
        ("train[0]", "invalid_utf8"): [104],
        ("train[0]", "identical"): [105],
        ("train[0]", "too_long"): [106],
        ("train[0]", "length_ratio"): [107],
        ("train[0]", "duplicate"): [109],
        ("train[1]", "broken_json"): [1],
        ("train[1]", "missing_key"): [2],
        ("train[1]", "not_a_string"): [3],
    }
    for _, reason in dropped:
        assert f"dropped: {reason}, {DESCRIPTIONS[reason]}" in " ".join(printed.split())
    assert "train[0]: 102, 108" in printed
    train = manifest["splits"]["train"]
    assert (train["pairs_in"], train["pairs_out"]) == (113, 101)


def test_rules_on_lengths_and_duplicates_leave_the_test_set_whole(
    corpus, write_tsv, make_experiment, run
):
    lines = [("cat " * 200, "le"), ("a", "b"), ("a", "b"), ("same", "same"), ("", "b")]
    test = {"format": "tsv", "path": write_tsv(lines, "test.tsv")}
    cleaning = {"drop_identical": True}
    _, manifest, _ = run(make_experiment([corpus], data={"test": [test], "cleaning": cleaning}))
    assert manifest["splits"]["test"]["pairs_out"] == 4
    assert manifest["splits"]["test"]["dropped"] == {"empty": 1}


def test_truncation_is_counted(write_tsv, make_pairs, make_experiment, run):
    lines = [*make_pairs(100), ("cat dog " * 30, "le chat " * 30)]
    corpus = {"format": "tsv", "path": write_tsv(lines)}
    cleaning = {"too_long": "truncate", "max_source_length": 20, "max_target_length": 25}
    _, manifest, printed = run(make_experiment([corpus], data={"cleaning": cleaning}))
    train = manifest["splits"]["train"]
    assert train["truncated"] == 1
    assert train["pairs_out"] == 101
    assert (train["source"]["longest"], train["target"]["longest"]) == (20, 25)
    assert "cut to the limit" in printed


def test_carriage_returns_and_a_byte_order_mark_are_no_text(
    make_pairs, write_tsv, make_experiment, run, tmp_path
):
    pairs = make_pairs(100)
    plain = {"format": "tsv", "path": write_tsv(pairs)}
    for side, name in enumerate(("s", "t")):
        lines = "".join(f"{pair[side]}\r\n" for pair in pairs)
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + lines.encode())
    windows = {"source": str(tmp_path / "s"), "target": str(tmp_path / "t")}
    one = files_of(run(make_experiment([plain]), "plain")[0])
    other = files_of(run(make_experiment([windows]), "windows")[0])
    del one["manifest.json"], other["manifest.json"]
    assert one == other


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_split_without_pairs_is_refused_and_its_lines_are_named(
    split, corpus, write_tsv, make_experiment, run, tmp_path
):
    bad = write_tsv([("", "b"), ("a\x0bb", "c"), ("", "d")], "bad.tsv")
    inputs = {"train": [corpus], split: [{"format": "tsv", "path": bad}]}
    with pytest.raises(UserError) as error:
        run(make_experiment(inputs.pop("train"), data=inputs))
    message = str(error.value)
    assert f"data.{split}: none of 3 pairs is left" in message
    assert "2 for empty" in message and f"{bad} line 1, 3" in message
    assert "1 for control_characters" in message
    assert list((tmp_path / "run").iterdir()) == []


def test_invalid_lines_that_empty_a_split_bring_the_hint(corpus, make_experiment, run, tmp_path):
    bad = tmp_path / "bad.tsv"
    bad.write_bytes("你好\t世界\n".encode("gbk") + b"\t\n")
    with pytest.raises(UserError, match=f"iconv -f GBK -t UTF-8 {bad}"):
        run(make_experiment([corpus], data={"test": [{"format": "tsv", "path": str(bad)}]}))


def test_a_share_too_small_to_hold_out_a_pair_is_refused(corpus, make_experiment, run):
    with pytest.raises(UserError, match="data.hold_out.test: a share of 1e-06 leaves no pair"):
        run(make_experiment([corpus], data={"hold_out": {"test": 1e-6}}))


def test_shares_that_leave_no_pair_for_training_are_refused(corpus, make_experiment, run):
    with pytest.raises(UserError, match="data.hold_out: its shares leave no pair for train"):
        run(make_experiment([corpus], data={"hold_out": {"test": 0.9999999}}))


@pytest.mark.parametrize("cluster", [CLUSTERS["in_memory"], CLUSTERS["two processes"]])
def test_a_mistake_found_by_a_worker_arrives_as_one_message(
    corpus, make_experiment, run, tmp_path, capfd, cluster
):
    experiment = make_experiment([corpus], vocabulary={"target_size": 5}, cluster=cluster)
    with pytest.raises(UserError) as error:
        run(experiment)
    assert str(error.value).startswith("vocabulary.target_size: no unigram vocabulary of 5")
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""
    assert list((tmp_path / "run").iterdir()) == []


def test_a_failed_run_leaves_the_data_of_the_one_before(corpus, make_experiment, run):
    workspace, _, _ = run(make_experiment([corpus]))
    before = files_of(workspace)
    with pytest.raises(UserError):
        run(make_experiment([corpus], vocabulary={"target_size": 5}))
    assert files_of(workspace) == before
    assert sorted(path.name for path in workspace.root.iterdir()) == ["data", "experiment.yaml"]


def test_the_numbers_shown_are_beam_s_and_the_manifest_s(corpus, make_experiment, tmp_path):
    experiment = make_experiment([corpus], data={"hold_out": {"valid": 0.2}})
    console = rich.console.Console(file=io.StringIO())
    prepared = prepare_timed(experiment, Workspace(tmp_path / "run"), console)
    for split, described in prepared.manifest["splits"].items():
        assert prepared.counters[f"{split} in"] == described["pairs_in"]
        assert prepared.counters[f"{split} out"] == described["pairs_out"]
        for reason, number in described["dropped"].items():
            assert prepared.counters[f"{split} {reason}"] == number
    assert set(prepared.seconds) == {"read", "sample", "train", "write"}


def test_a_real_corpus_loses_nothing(make_experiment, run):
    root = pathlib.Path(__file__).parents[3]
    folder = pathlib.Path(os.environ.get("SEQLOOM_DATA", root / "../shared/data"))
    if not (folder / "multi30k-en-de").is_dir():
        pytest.skip(f"no multi30k-en-de in {folder}; SEQLOOM_DATA names the folder")
    sides = {"source": "en", "target": "de"}
    corpus = {
        side: str(folder / "multi30k-en-de" / f"test_2016_flickr.{language}.gz")
        for side, language in sides.items()
    }
    workspace, manifest, _ = run(make_experiment([corpus], data={"test": [corpus]}))
    for split in ("train", "test"):
        assert manifest["splits"][split]["pairs_in"] == 1000
    assert manifest["splits"]["test"]["pairs_out"] == 1000
    assert manifest["splits"]["test"]["source"]["unknown_rate"] < 0.01
