"""Which versions of a model lie on disk, and which of them should be served."""

import re
from typing import TypeVar

from serving.server.url_folder import Folder, UrlFolder

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LIMIT = 1 << 63
_Folder = TypeVar("_Folder", bound=Folder)


def versions_on_disk(base_path: _Folder) -> dict[int, _Folder]:
    """Find the versions below a base path.

    Whatever has an integer for its name is a version from the moment it has that name. An
    exporter therefore writes under another name and renames at the end. Stores of objects rename
    no folders: at a URL a version is one when its model's own file is there.

    Args:
        base_path: Folder of the model, which may be at a URL.

    Returns:
        Path by version number. Of two names of one number (`1` and `01`) the later in the
        order of strings counts.

    Raises:
        OSError: If the folder cannot be read.
    """
    versions = {}
    children: list[_Folder] = sorted(base_path.iterdir())  # type: ignore
    for child in children:
        if not _INTEGER.fullmatch(child.name) or not -_LIMIT <= int(child.name) < _LIMIT:
            continue
        if not isinstance(child, UrlFolder) or child.holds_a_model():
            versions[int(child.name)] = child
    return versions


def latest(versions: dict[int, _Folder], count: int = 1) -> dict[int, _Folder]:
    """Choose the versions with the highest numbers.

    Args:
        versions: Path by version number.
        count: How many to choose.
    """
    return {number: versions[number] for number in sorted(versions, reverse=True)[:count]}
