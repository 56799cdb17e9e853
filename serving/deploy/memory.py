"""Measures what memory an export takes, by loading it and answering its largest batches."""

import json
import pathlib
import subprocess
import sys

from models.errors import UserError
from serving.deploy.contract import Measured

# What the line with the outcome begins with.
MARK = "measured: "
_PROGRAM = "serving.deploy.measuring"


def measure(version: pathlib.Path, rows: int, runs: int) -> Measured:
    """Load an export in a process of its own, and see what it takes.

    One that has done other things has memory to spare, which would hide what the export needs.
    The warm-up requests that the export carries make the full batch of each signature. The process
    holds Python beside TensorFlow, which the real server does not: it is an upper bound of that.

    Args:
        version: Folder of the version.
        rows: Of a full batch.
        runs: Batches that run at once.

    Raises:
        UserError: If the export cannot be loaded or answers its own requests with an error.
    """
    command = [sys.executable, "-m", _PROGRAM, str(version), str(rows), str(runs)]
    outcome = subprocess.run(command, capture_output=True, text=True)
    for line in outcome.stdout.splitlines():
        if line.startswith(MARK):
            return Measured(**json.loads(line.removeprefix(MARK)))
    last = (outcome.stderr.strip().splitlines() or [f"exit status {outcome.returncode}"])[-1]
    raise UserError(
        f"{version}: cannot be loaded and asked for batches of {rows} to measure its memory "
        f"({last}). Export it again, or set deploy.max_batch_size to less if memory ran out"
    )
