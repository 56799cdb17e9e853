"""Table vocabularies as files: a kind and its pieces in the order of their ids."""

import json
from collections.abc import Iterable

MARKS = ("<pad>", "<unk>", "<s>", "</s>")  # the pieces of the special ids, 0 to 3


def dump_pieces(kind: str, pieces: Iterable[str]) -> bytes:
    """The bytes of a vocabulary file.

    Args:
        kind: `word`, `character`, `byte` or `label`.
        pieces: Its pieces behind the marks, the first of which gets id 4.
    """
    document = {"kind": kind, "pieces": [*MARKS, *pieces]}
    return (json.dumps(document, ensure_ascii=False, indent=0) + "\n").encode()


def load_pieces(file: bytes) -> tuple[str, list[str]]:
    """Kind and pieces of a vocabulary file, the marks among them."""
    document = json.loads(file)
    return document["kind"], document["pieces"]


def byte_pieces() -> list[str]:
    """The pieces of the kind `byte`, as SentencePiece writes them."""
    return [f"<0x{byte:02X}>" for byte in range(256)]
