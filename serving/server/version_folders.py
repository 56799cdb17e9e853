"""Which versions of a model lie on disk, and which of them should be served."""

import pathlib
import re

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LIMIT = 1 << 63


def versions_on_disk(base_path: pathlib.Path) -> dict[int, pathlib.Path]:
    """Find the versions below a base path.

    Whatever has an integer for its name is a version from the moment it has that name. An
    exporter therefore writes under another name and renames at the end.

    Args:
        base_path: Folder of the model.

    Returns:
        Path by version number. Of two names of one number (`1` and `01`) the later in the
        order of strings counts.

    Raises:
        OSError: If the folder cannot be read.
    """
    versions = {}
    for child in sorted(base_path.iterdir()):
        if _INTEGER.fullmatch(child.name) and -_LIMIT <= int(child.name) < _LIMIT:
            versions[int(child.name)] = child
    return versions


def latest(versions: dict[int, pathlib.Path], count: int = 1) -> dict[int, pathlib.Path]:
    """Choose the versions with the highest numbers.

    Args:
        versions: Path by version number.
        count: How many to choose.
    """
    return {number: versions[number] for number in sorted(versions, reverse=True)[:count]}
