"""The list of the picture files that were read: what became of each, and whether it has changed."""

import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence

from models.errors import UserError
from pipeline.experiment import CorpusFile
from pipeline.places import Place, UrlPath, UrlStat, is_url
from pipeline.prepare.clips import clip_files, size_and_hash_of_clip
from pipeline.prepare.pictures import picture_folder, picture_path, size_and_hash
from pipeline.prepare.report import FIRST_LINES, PictureFacts
from pipeline.workspace import fingerprint, write_text

FILE = "pictures.jsonl"

Listed = Mapping[tuple[int, bytes], PictureFacts]


def write_list(folder: Place, pictures: Listed) -> None:
    """Write the list: a JSON object a picture, in the order of inputs and names."""
    rows = (
        {
            "input": index,
            "picture": os.fsdecode(name),
            "bytes": facts.bytes,
            "hash": facts.hash,
            "dropped": facts.dropped,
            **_of_a_clip(facts),
        }
        for (index, name), facts in sorted(pictures.items())
    )
    write_text(folder / FILE, "".join(f"{json.dumps(row)}\n" for row in rows))


def _of_a_clip(facts: PictureFacts) -> dict:
    if facts.frames is None:
        return {}
    return {"frames": facts.frames, "broken": facts.broken}


def read_list(folder: Place) -> dict[tuple[int, bytes], PictureFacts]:
    """The list of a data folder.

    Raises:
        UserError: If there is none, or it is torn.
    """
    path = folder / FILE
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {
            (row["input"], os.fsencode(row["picture"])): PictureFacts(
                row["dropped"], row["bytes"], row["hash"], row.get("frames"), row.get("broken")
            )
            for row in rows
        }
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"{path}: the list of pictures cannot be read ({error}); run `seqloom prepare` again"
        ) from None


def pictures_fingerprint(pictures: Listed) -> str:
    """Of which pictures there are and what is in them."""
    hashes = ((index, os.fsdecode(name), each.hash) for (index, name), each in pictures.items())
    return fingerprint(sorted(hashes, key=str))


def refreshed(folder: Place, inputs: Sequence[CorpusFile]) -> Listed:
    """The list of a data folder as the pictures are now.

    A file of the same size that has not been touched since the list was written is taken for the
    same, so that large corpora need not be read whole before every stage; one that is no longer
    there, too.

    Args:
        folder: With the list.
        inputs: All inputs of the experiment, by index.
    """
    written = (folder / FILE).stat().st_mtime_ns if (folder / FILE).exists() else 0
    statuses = _Statuses()
    return {
        (index, name): _now(
            picture_path(inputs[index], name),
            facts,
            written,
            statuses.of(inputs[index], name, facts.frames is not None),
        )
        if index < len(inputs)
        else facts
        for (index, name), facts in read_list(folder).items()
    }


class _Statuses:
    """Sizes and times of pictures and clips; of those in one folder at a URL by one question."""

    def __init__(self) -> None:
        self._listed = functools.cache(_listed)

    def of(self, corpus: CorpusFile, name: bytes, clip: bool) -> list[os.stat_result | UrlStat]:
        """Of a picture, or the files of a clip; empty if one of them is not to be had."""
        path = picture_path(corpus, name)
        if is_url(path):
            return self._at_url(UrlPath(path), picture_folder(corpus))
        try:
            return [os.stat(each) for each in (clip_files(path) if clip else [path])]
        except (OSError, ValueError):
            return []

    def _at_url(self, path: UrlPath, folder: str) -> list[os.stat_result | UrlStat]:
        # The name may be a URL of its own.
        inside = is_url(folder) and str(path).startswith(f"{UrlPath(folder)}/")
        files, frames = self._listed(UrlPath(folder) if inside else path.parent)
        return [files[path]] if path in files else frames.get(path, [])


_Files = dict[UrlPath, UrlStat]
_Frames = dict[UrlPath, list[os.stat_result | UrlStat]]


def _listed(folder: UrlPath) -> tuple[_Files, _Frames]:
    """The files in a folder at any depth, and those that are frames of a clip by its folder."""
    try:
        files = folder.stats()
    except (OSError, ValueError):
        files = {}
    frames: _Frames = {}
    for path, status in files.items():
        if not path.name.startswith("."):
            frames.setdefault(path.parent, []).append(status)
    return files, frames


def _now(
    path: str, facts: PictureFacts, written: int, statuses: list[os.stat_result | UrlStat]
) -> PictureFacts:
    if not statuses:
        return facts
    size = sum(status.st_size for status in statuses)
    # A file that is put in another's place may bring an old time of its own.
    touched = max(max(status.st_mtime_ns, status.st_ctime_ns) for status in statuses)
    if facts.hash is not None and size == facts.bytes and touched < written:
        return facts
    found = size_and_hash(path) if facts.frames is None else size_and_hash_of_clip(path)
    return dataclasses.replace(facts, bytes=found[0], hash=found[1])


def describe_pictures(pictures: Listed, index: int) -> dict:
    """The pictures of an input: how many, and by reason how many were dropped and the first."""
    own = {name: facts for (of_input, name), facts in sorted(pictures.items()) if of_input == index}
    reasons = sorted({facts.dropped for facts in own.values() if facts.dropped})
    return {
        "read": len(own),
        "dropped": {
            reason: _named(
                os.path.join(name, os.fsencode(facts.broken)) if facts.broken else name
                for name, facts in own.items()
                if facts.dropped == reason
            )
            for reason in reasons
        },
    }


def _named(names: Iterable[bytes]) -> dict:
    every = [os.fsdecode(name) for name in names]
    return {"pictures": len(every), "first": every[:FIRST_LINES]}
