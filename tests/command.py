"""Runs the command `seqloom` as a user would, in a process of its own."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def environment(**changes: str) -> dict[str, str]:
    """The environment of the command, with this interpreter's programs first on PATH."""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return {**own, "PATH": path, "PYTHONPATH": str(ROOT), **changes}


def command(*arguments: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "pipeline.cli", *arguments]


def seqloom(
    *arguments: str, stdin: bytes = b"", status: int = 0, timeout: float = 600, **changes: str
) -> subprocess.CompletedProcess:
    """Run the command and check its exit status.

    Args:
        *arguments: Verb and flags.
        stdin: Standard input.
        status: Expected exit status.
        timeout: Seconds it may take.
        **changes: Environment variables.
    """
    outcome = subprocess.run(
        command(*arguments),
        input=stdin,
        capture_output=True,
        cwd=ROOT,
        env=environment(**changes),
        timeout=timeout,
    )
    assert outcome.returncode == status, (
        f"exit status {outcome.returncode}\n{outcome.stdout.decode()}\n{outcome.stderr.decode()}"
    )
    return outcome
