"""What to do next so that the wanted versions are served and no request goes without one."""

import dataclasses
import enum
from collections.abc import Collection, Mapping
from typing import Literal


class State(enum.IntEnum):
    """Life of a version; the numbers are those of `ModelVersionStatus.State`."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclasses.dataclass(frozen=True)
class Action:
    """One step: load or unload one version."""

    kind: Literal["load", "unload"]
    number: int


def next_action(states: Mapping[int, State], wanted: Collection[int]) -> Action | None:
    """Choose the next step, so that a model that answers goes on answering.

    An unwanted version is unloaded only when a wanted one has taken its place, when nothing
    is wanted any more, or when another unwanted one still answers. So a new version that
    fails to load leaves the old one serving.

    Args:
        states: State by version number, of the versions known so far. A wanted version
            that ended has failed, and is not tried again.
        wanted: The versions that should be served.

    Returns:
        The step, or None when there is nothing to do.
    """
    available = [number for number, state in states.items() if state is State.AVAILABLE]
    unwanted = sorted(set(available) - set(wanted))
    replaced = len(unwanted) < len(available)
    if unwanted and (replaced or not wanted or len(unwanted) > 1):
        return Action("unload", unwanted[0])
    fresh = [number for number in wanted if number not in states]
    return Action("load", max(fresh)) if fresh else None
