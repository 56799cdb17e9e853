"""Which of the versions on disk should be served: the policies of a model's configuration."""

import abc
import dataclasses

from serving.server.url_folder import Folder
from serving.server.version_folders import latest


class VersionChoice(abc.ABC):
    """Chooses among the versions that lie on disk, each time they are looked at."""

    @abc.abstractmethod
    def choose(self, versions: dict[int, Folder]) -> dict[int, Folder]:
        """Choose the versions to serve.

        Args:
            versions: Path by number of every version on disk.

        Returns:
            Those of them that should be served.
        """


@dataclasses.dataclass(frozen=True)
class Latest(VersionChoice):
    """The versions with the highest numbers.

    Attributes:
        count: How many of them; 0 means one, as in TensorFlow Serving.
    """

    count: int = 1

    def choose(self, versions: dict[int, Folder]) -> dict[int, Folder]:
        """Choose the highest numbers."""
        return latest(versions, max(self.count, 1))


@dataclasses.dataclass(frozen=True)
class All(VersionChoice):
    """Every version."""

    def choose(self, versions: dict[int, Folder]) -> dict[int, Folder]:
        """Choose all of them."""
        return dict(versions)


@dataclasses.dataclass(frozen=True)
class Specific(VersionChoice):
    """The versions named, as far as they are there.

    Attributes:
        numbers: Their numbers.
    """

    numbers: frozenset[int]

    def choose(self, versions: dict[int, Folder]) -> dict[int, Folder]:
        """Choose those named."""
        return {number: path for number, path in versions.items() if number in self.numbers}
