"""How processes of a job find this very project, wherever they are started."""

import os
import pathlib
import sys

import pipeline


def python_path() -> str:
    """Where Python finds this project, and what else it was told: a value of `PYTHONPATH`."""
    project = str(pathlib.Path(pipeline.__file__).parents[1])
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([project, *filter(None, told)]))


def module_command(module: str) -> list[str]:
    """A command that runs a module of this project.

    Not one of the same name that lies in the folder it is started in, which -P keeps Python from
    looking in.
    """
    return [sys.executable, "-P", "-m", module]
