"""The launchers by name."""

from pipeline.submit.contract import Launcher

LAUNCHERS: dict[str, type[Launcher]] = {}
