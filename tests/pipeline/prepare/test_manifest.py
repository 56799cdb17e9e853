import json
import pathlib
import shutil

import pytest

from models.errors import UserError
from pipeline.prepare.manifest import data_fingerprint, load_manifest


@pytest.fixture
def corpus(write_tsv, make_pairs):
    return {"format": "tsv", "path": write_tsv(make_pairs(200))}


@pytest.mark.parametrize(
    "sections",
    [
        {"seed": 2},
        {"data": {"cleaning": {"max_length_ratio": 3.0}}},
        {"data": {"shards": 3}},
        {"data": {"hold_out": {"valid": 0.1}}},
        {"vocabulary": {"algorithm": "bpe"}},
    ],
)
def test_the_fingerprint_follows_what_decides_the_records(corpus, make_experiment, sections):
    assert data_fingerprint(make_experiment([corpus], **sections)) != data_fingerprint(
        make_experiment([corpus])
    )


def test_the_fingerprint_follows_nothing_else(corpus, make_experiment):
    assert data_fingerprint(
        make_experiment([corpus], search={"beam_size": 2}, cluster={"intra_op_threads": 7})
    ) == data_fingerprint(make_experiment([corpus]))


def test_the_fingerprint_follows_the_contents_of_files_not_their_places(
    corpus, make_experiment, tmp_path
):
    before = data_fingerprint(make_experiment([corpus]))
    moved = {"format": "tsv", "path": shutil.copy(corpus["path"], tmp_path / "moved.tsv")}
    moved["path"] = str(moved["path"])
    assert data_fingerprint(make_experiment([moved])) == before
    with open(moved["path"], "a") as file:
        file.write("one\tun\n")
    assert data_fingerprint(make_experiment([moved])) != before


def test_a_missing_corpus_has_no_fingerprint(make_experiment, tmp_path):
    path = str(tmp_path / "absent.tsv")
    with pytest.raises(UserError, match="absent.tsv: no such file"):
        data_fingerprint(make_experiment([{"format": "tsv", "path": path}]))


def test_a_manifest_is_loaded_by_its_experiment(corpus, make_experiment, run):
    experiment = make_experiment([corpus])
    workspace, manifest, _ = run(experiment)
    assert load_manifest(workspace, experiment) == manifest
    assert manifest["fingerprint"] == data_fingerprint(experiment)


def test_a_manifest_is_loaded_without_the_corpora(corpus, make_experiment, run):
    experiment = make_experiment([corpus])
    workspace, manifest, _ = run(experiment)
    pathlib.Path(corpus["path"]).unlink()
    assert load_manifest(workspace, experiment) == manifest


@pytest.mark.parametrize(
    "sections, changed",
    [({"seed": 2}, "seed"), ({"vocabulary": {"source_size": 150}}, "vocabulary")],
)
def test_records_of_another_experiment_are_refused(corpus, make_experiment, run, sections, changed):
    workspace, _, _ = run(make_experiment([corpus]))
    with pytest.raises(UserError, match=f"{changed} changed since. Run `seqloom prepare` again"):
        load_manifest(workspace, make_experiment([corpus], **sections))


def test_a_changed_corpus_is_refused(corpus, make_experiment, run):
    experiment = make_experiment([corpus])
    workspace, _, _ = run(experiment)
    with open(corpus["path"], "a") as file:
        file.write("one\tun\n")
    with pytest.raises(UserError, match="corpus files changed since"):
        load_manifest(workspace, experiment)


def test_what_is_missing_cut_or_torn_is_refused(corpus, make_experiment, run):
    experiment = make_experiment([corpus])
    workspace, manifest, _ = run(experiment)
    shard = workspace.data / manifest["splits"]["train"]["shards"][0]["file"]
    for torn in (workspace.counts("target"), workspace.vocabulary("source")):
        torn_bytes = torn.read_bytes()
        torn.write_bytes(torn_bytes[: len(torn_bytes) // 2])
        with pytest.raises(UserError, match=f"{torn.name} .*Run `seqloom prepare` again"):
            load_manifest(workspace, experiment)
        torn.write_bytes(torn_bytes)
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(UserError, match=f"{shard.name} has .* bytes; expected"):
        load_manifest(workspace, experiment)
    shard.unlink()
    with pytest.raises(UserError, match=f"{shard.name} is missing"):
        load_manifest(workspace, experiment)
    workspace.manifest.write_text(workspace.manifest.read_text()[:100])
    with pytest.raises(UserError, match="not valid JSON"):
        load_manifest(workspace, experiment)
    workspace.manifest.unlink()
    with pytest.raises(UserError, match="no such file. Run `seqloom prepare` again"):
        load_manifest(workspace, experiment)


def test_what_the_manifest_says(write_tsv, make_pairs, make_experiment, run):
    pairs = make_pairs(300)
    lines = [*pairs[:10], ("", ""), pairs[0], ("long " * 200, "short"), *pairs[10:]]
    corpus = {"format": "tsv", "path": write_tsv(lines)}
    experiment = make_experiment([corpus], data={"hold_out": {"test": 0.2}})
    workspace, manifest, _ = run(experiment)
    assert json.loads(workspace.manifest.read_text(encoding="utf-8")) == manifest
    (described,) = manifest["inputs"]
    assert described["name"] == "train[0]"
    assert described["files"][0]["lines"] == 303
    train, test = manifest["splits"]["train"], manifest["splits"]["test"]
    assert train["pairs_in"] + test["pairs_in"] == 303
    assert described["splits"]["train"]["dropped"]["empty"] == {"pairs": 1, "first_lines": [11]}
    for split in (train, test):
        assert split["pairs_in"] == split["pairs_out"] + sum(split["dropped"].values())
        assert split["pairs_out"] == sum(shard["pairs"] for shard in split["shards"])
        assert split["pairs_out"] == sum(split["source"]["lengths"].values())
        for shard in split["shards"]:
            assert (workspace.data / shard["file"]).stat().st_size == shard["bytes"]
    assert train["source"]["longest"] <= 100
    assert manifest["vocabularies"]["source"]["size_asked"] == 200
