"""The manifest: what lies in the data folder, where it came from, what it belongs to."""

import functools
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.errors import UserError
from models.special_ids import UNKNOWN_ID
from pipeline.experiment import Experiment
from pipeline.places import place
from pipeline.prepare.inspection import check_file
from pipeline.prepare.job import task_reads_pictures
from pipeline.prepare.picture_list import (
    describe_pictures,
    pictures_fingerprint,
    refreshed,
)
from pipeline.prepare.plan import Input, list_inputs, list_splits
from pipeline.prepare.readers import make_reader
from pipeline.prepare.records import SCHEMA_VERSION
from pipeline.prepare.report import Report, SideStatistics
from pipeline.prepare.sides import Side, sides_of
from pipeline.workspace import (
    Workspace,
    file_fingerprint,
    fingerprint,
    read_json,
    vocabulary_file,
)

_LIBRARIES = ("apache-beam", "sentencepiece")
_BIN_WIDTH = 5
_REMEDY = "Run `seqloom prepare` again"


def data_fingerprint(experiment: Experiment) -> str:
    """Hash of everything that decides the records.

    It covers the contents of the corpus files, not where they lie, the sections data and
    vocabulary, the seed, and the version of the record schema. Pictures are known only when the
    corpus files have been read, and `load_manifest` compares them by the list of those read.

    Raises:
        UserError: If a corpus file is missing.
    """
    return fingerprint(_parts(experiment, _file_hashes(experiment, {})))


def load_manifest(workspace: Workspace, experiment: Experiment) -> dict:
    """The manifest of a workspace whose records are the experiment's.

    A corpus file or picture that is no longer there is taken for unchanged, so that records can
    be used on a machine that has only the workspace.

    Raises:
        UserError: If there is no manifest, or the records were prepared from other files or
            settings, or one of the files it lists is missing, cut short or changed.
    """
    manifest = read_json(workspace.manifest, _REMEDY)
    recorded = {
        facts["path"]: facts["hash"]
        for described in manifest.get("inputs", [])
        for facts in described["files"]
    }
    wanted = _parts(experiment, _file_hashes(experiment, recorded))
    if task_reads_pictures(experiment.model.task):
        inputs = [corpus for _, _, corpus in list_inputs(experiment.data)]
        wanted["pictures"] = pictures_fingerprint(refreshed(workspace.data, inputs))
    _check_parts(workspace, wanted, manifest.get("fingerprints", {}))
    _check_shards(workspace, manifest)
    _check_vocabularies(workspace, manifest)
    return manifest


def _check_parts(workspace: Workspace, wanted: dict[str, str], found: dict[str, str]) -> None:
    changed = [name for name, value in wanted.items() if found.get(name) != value]
    if changed:
        raise UserError(
            f"{workspace.manifest}: these records are of another experiment: "
            f"{', '.join(changed)} changed since. {_REMEDY}"
        )


def _check_shards(workspace: Workspace, manifest: dict) -> None:
    for split in manifest["splits"].values():
        for shard in [*split["shards"], *split.get("picture_files", [])]:
            path = workspace.data / shard["file"]
            size = path.stat().st_size if path.is_file() else None
            if size != shard["bytes"]:
                found = "is missing" if size is None else f"has {size} bytes"
                raise UserError(f"{path} {found}; expected {shard['bytes']} bytes. {_REMEDY}")


def _check_vocabularies(workspace: Workspace, manifest: dict) -> None:
    vocabularies = manifest["vocabularies"]
    for name, facts in vocabularies.items():
        path = workspace.vocabulary(name)
        if not path.is_file() or file_fingerprint(path) != facts["hash"]:
            raise UserError(f"{path} is missing or not as it was prepared. {_REMEDY}")
    for side, name in manifest["sides"].items():
        path, facts = workspace.counts(side), vocabularies[name]
        lines = path.read_bytes().count(b"\n") if path.is_file() else 0
        if lines != facts["size"]:
            raise UserError(f"{path} has {lines} lines; expected {facts['size']}. {_REMEDY}")


def _parts(experiment: Experiment, file_hashes: list[str]) -> dict[str, str]:
    """Fingerprints of what decides the records, by a name to show when one differs."""
    data = experiment.data.model_dump(mode="json", exclude={"folder"})
    for split, position, _ in list_inputs(experiment.data):
        for name in ("source", "target", "path", "images"):
            del data[split][position][name]
    return {
        "corpus files": fingerprint(file_hashes),
        "data": fingerprint(data),
        "vocabulary": fingerprint(experiment.vocabulary.model_dump(mode="json")),
        "task": fingerprint(_task(experiment)),
        "seed": fingerprint(experiment.seed),
        "record schema": fingerprint(SCHEMA_VERSION),
    }


def _task(experiment: Experiment) -> str | list[str]:
    """What decides the sides of records."""
    task, form = experiment.model.task, experiment.model.visual_answering.form
    return [task, form] if task == "visual_answering" else task


def _file_hashes(experiment: Experiment, recorded: Mapping[str, str]) -> list[str]:
    """Hashes of the corpus files, in order; those of absent files as recorded by path."""
    paths = [
        path
        for _, _, corpus in list_inputs(experiment.data)
        for path in make_reader(corpus).paths()
    ]
    return [
        recorded[path] if path in recorded and not place(path).exists() else _file_hash(path)
        for path in paths
    ]


def _file_hash(path: str) -> str:
    check_file(path)
    status = place(path).stat()
    return _hash_of_version(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _hash_of_version(path: str, size: int, modified: int) -> str:
    """Hash of a file, computed once for each of its versions."""
    return file_fingerprint(path)


def make_manifest(experiment: Experiment, inputs: Sequence[Input], report: Report) -> dict:
    """Describe a finished run.

    Args:
        experiment: The experiment.
        inputs: What was read.
        report: What happened to it.

    Returns:
        JSON-like. Nothing in it depends on the time, the machine or the number of workers.
    """
    # The hashes of what was read, should a file have changed since.
    hashes = [facts.hash for inspected in inputs for facts in inspected.files]
    parts = _parts(experiment, hashes)
    if task_reads_pictures(experiment.model.task):
        parts["pictures"] = pictures_fingerprint(report.pictures)
    sides = sides_of(experiment)
    return {
        "fingerprint": fingerprint(parts),
        "fingerprints": parts,
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "inputs": [_describe_input(inspected, report) for inspected in inputs],
        "sides": {name: side.vocabulary for name, side in sides.items()},
        "vocabularies": _describe_vocabularies(experiment, report),
        "splits": {
            split: _describe_split(split, report, sides) for split in list_splits(experiment.data)
        },
    }


def _describe_input(inspected: Input, report: Report) -> dict:
    tallies = {
        split: tally
        for (index, split), tally in sorted(report.tallies.items())
        if index == inspected.index
    }
    return {
        "name": inspected.name,
        "format": inspected.corpus.format,
        "files": [
            {"path": facts.path, "bytes": facts.bytes, "hash": facts.hash, "lines": facts.lines}
            for facts in inspected.files
        ],
        "splits": {
            split: {
                "pairs_in": tally.pairs_in,
                "pairs_out": tally.pairs_out,
                "truncated": tally.truncated,
                "dropped": {
                    reason: {"pairs": drops.pairs, "first_lines": drops.first_lines}
                    for reason, drops in sorted(tally.dropped.items())
                },
            }
            for split, tally in tallies.items()
        },
        **_if_any("pictures", describe_pictures(report.pictures, inspected.index), report.pictures),
    }


def _if_any(name: str, described: Any, anything: Any) -> dict[str, Any]:
    """An entry of the manifest that tasks without pictures do not have."""
    return {name: described} if anything else {}


def _describe_vocabularies(experiment: Experiment, report: Report) -> dict:
    sides = {side.vocabulary: side for side in sides_of(experiment).values()}
    return {
        name: {
            "file": vocabulary_file(name),
            "kind": sides[name].kind,
            "counts_file": f"{name}.counts.tsv",
            "size": facts.size,
            "size_asked": sides[name].size,
            "hash": facts.hash,
            "sampled_sentences": facts.sentences,
        }
        for name, facts in sorted(report.vocabularies.items())
    }


def _describe_split(split: str, report: Report, sides: Mapping[str, Side]) -> dict:
    tally = report.split_tally(split)
    shards = sorted(item for item in report.shards.items() if item[0][0] == split)
    return {
        "pairs_in": tally.pairs_in,
        "pairs_out": tally.pairs_out,
        "truncated": tally.truncated,
        "dropped": {reason: drops.pairs for reason, drops in sorted(tally.dropped.items())},
        **{side: describe_side(report.statistics[split, side]) for side in sides},
        "shards": [
            {"file": name, "pairs": facts.rows, "bytes": facts.bytes, "hash": facts.hash}
            for (_, name), facts in shards
        ],
        **_if_any("picture_files", _describe_picture_files(split, report), report.picture_files),
    }


def _describe_picture_files(split: str, report: Report) -> list[dict]:
    return [
        {"file": name, "pictures": facts.rows, "bytes": facts.bytes, "hash": facts.hash}
        for (of_split, name), facts in sorted(report.picture_files.items())
        if of_split == split
    ]


def describe_side(statistics: SideStatistics) -> dict:
    """Lengths and unknown pieces of one side of a split.

    Returns:
        `pieces`, `unknown` (pieces without a place in the vocabulary), `unknown_rate`,
        `mean_length` and `longest` in pieces, and `lengths`: records by interval of lengths.
    """
    pieces = int(statistics.pieces.sum())
    unknown = int(statistics.pieces[UNKNOWN_ID]) if len(statistics.pieces) > UNKNOWN_ID else 0
    records = int(statistics.lengths.sum())
    return {
        "pieces": pieces,
        "unknown": unknown,
        "unknown_rate": round(unknown / max(pieces, 1), 6),
        "mean_length": round(pieces / max(records, 1), 2),
        "longest": max(len(statistics.lengths) - 1, 0),
        "lengths": _histogram(statistics.lengths),
    }


def _histogram(lengths: np.ndarray) -> dict[str, int]:
    """Records by intervals of five lengths, `1-5` first, empty ones left out."""
    starts = range(1, len(lengths), _BIN_WIDTH)
    counts = {start: int(lengths[start : start + _BIN_WIDTH].sum()) for start in starts}
    return {f"{start}-{start + _BIN_WIDTH - 1}": count for start, count in counts.items() if count}
