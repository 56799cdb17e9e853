"""The versions of a servable, in a folder or at a URL."""

from models.errors import UserError
from pipeline.places import Place, UrlPath
from serving.server.url_folder import MODEL_FILE
from serving.server.version_folders import versions_on_disk


def versions(base: Place) -> list[int]:
    """Versions of a servable, in ascending order; none if there is no such folder."""
    if isinstance(base, UrlPath):
        return sorted(int(name) for name in base.folders() if name.isdecimal())
    return sorted(versions_on_disk(base)) if base.is_dir() else []


def newest_version(base: Place) -> int:
    """The newest version that can be loaded: at a URL, where files come one by one, a whole one.

    Raises:
        UserError: If there is none.
    """
    found = versions(base)
    if isinstance(base, UrlPath):
        found = [each for each in found if (base / str(each) / MODEL_FILE).is_file()]
    if not found:
        raise UserError(f"{base}: no exported version yet; run `seqloom export` first")
    return found[-1]
