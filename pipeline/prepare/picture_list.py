"""The list of the picture files that were read: what became of each, and whether it has changed."""

import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from models.errors import UserError
from pipeline.experiment import CorpusFile
from pipeline.prepare.pictures import picture_path, size_and_hash
from pipeline.prepare.report import FIRST_LINES, PictureFacts
from pipeline.workspace import fingerprint, write_text

FILE = "pictures.jsonl"

Listed = Mapping[tuple[int, bytes], PictureFacts]


def write_list(folder: pathlib.Path, pictures: Listed) -> None:
    """Write the list: a JSON object a picture, in the order of inputs and names."""
    rows = (
        {
            "input": index,
            "picture": os.fsdecode(name),
            "bytes": facts.bytes,
            "hash": facts.hash,
            "dropped": facts.dropped,
        }
        for (index, name), facts in sorted(pictures.items())
    )
    write_text(folder / FILE, "".join(f"{json.dumps(row)}\n" for row in rows))


def read_list(folder: pathlib.Path) -> dict[tuple[int, bytes], PictureFacts]:
    """The list of a data folder.

    Raises:
        UserError: If there is none, or it is torn.
    """
    path = folder / FILE
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {
            (row["input"], os.fsencode(row["picture"])): PictureFacts(
                row["dropped"], row["bytes"], row["hash"]
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


def refreshed(folder: pathlib.Path, inputs: Sequence[CorpusFile]) -> Listed:
    """The list of a data folder as the pictures are now.

    A file of the same size that has not been touched since the list was written is taken for the
    same, so that large corpora need not be read whole before every stage; one that is no longer
    there, too.

    Args:
        folder: With the list.
        inputs: All inputs of the experiment, by index.
    """
    written = (folder / FILE).stat().st_mtime_ns if (folder / FILE).exists() else 0
    return {
        (index, name): _now(picture_path(inputs[index], name), facts, written)
        if index < len(inputs)
        else facts
        for (index, name), facts in read_list(folder).items()
    }


def _now(path: str, facts: PictureFacts, written: int) -> PictureFacts:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return facts
    # A file that is put in another's place may bring an old time of its own.
    touched = max(status.st_mtime_ns, status.st_ctime_ns)
    if facts.hash is not None and status.st_size == facts.bytes and touched < written:
        return facts
    return PictureFacts(facts.dropped, *size_and_hash(path))


def describe_pictures(pictures: Listed, index: int) -> dict:
    """The pictures of an input: how many, and by reason how many were dropped and the first."""
    own = {name: facts for (of_input, name), facts in sorted(pictures.items()) if of_input == index}
    reasons = sorted({facts.dropped for facts in own.values() if facts.dropped})
    return {
        "read": len(own),
        "dropped": {
            reason: _named(name for name, facts in own.items() if facts.dropped == reason)
            for reason in reasons
        },
    }


def _named(names: Iterable[bytes]) -> dict:
    every = [os.fsdecode(name) for name in names]
    return {"pictures": len(every), "first": every[:FIRST_LINES]}
