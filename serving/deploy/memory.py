"""Measures what memory an export takes, by loading it and answering its largest batches.

    python -m serving.deploy.memory EXPORT/VERSION ROWS RUNS

prints one line of JSON. A process of its own is asked, because one that has done other things has
memory to spare that would hide what the export needs.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from models.errors import UserError
from serving.deploy.contract import Measured

if TYPE_CHECKING:
    import numpy as np

    from serving.server.saved_model import SavedModelSession

_MARK = "measured: "


def measure(version: pathlib.Path, rows: int, runs: int) -> Measured:
    """Load an export in a process of its own, and see what it takes.

    The warm-up requests that it carries make the full batch of each signature. The process holds
    Python beside TensorFlow, which the real server does not: it is an upper bound of that.

    Args:
        version: Folder of the version.
        rows: Of a full batch.
        runs: Batches that run at once.

    Raises:
        UserError: If the export cannot be loaded or answers its own requests with an error.
    """
    command = [sys.executable, "-m", __name__, str(version), str(rows), str(runs)]
    outcome = subprocess.run(command, capture_output=True, text=True)
    for line in outcome.stdout.splitlines():
        if line.startswith(_MARK):
            return Measured(**json.loads(line.removeprefix(_MARK)))
    last = (outcome.stderr.strip().splitlines() or [f"exit status {outcome.returncode}"])[-1]
    raise UserError(
        f"{version}: cannot be loaded and asked for batches of {rows} to measure its memory "
        f"({last}). Export it again, or set deploy.max_batch_size to less if memory ran out"
    )


class _Recorder:
    """Runs requests, and keeps those of each signature."""

    def __init__(self, session: "SavedModelSession"):
        self._session = session
        self.signatures = session.signatures
        # Feeds of the requests by what they fetched.
        self.kept: dict[tuple[str, ...], list[dict[str, np.ndarray]]] = {}

    def run(
        self,
        feeds: "dict[str, np.ndarray]",
        fetches: Sequence[str],
        timeout_in_ms: int | None = None,
    ) -> "list[np.ndarray]":
        self.kept.setdefault(tuple(fetches), []).append(feeds)
        return self._session.run(feeds, fetches, timeout_in_ms)


def _measure_here(version: pathlib.Path, rows: int, runs: int) -> Measured:
    from serving.server.saved_model import SavedModelSession
    from serving.server.warmup import warm_up

    base = _status_bytes("VmRSS")
    began = time.monotonic()
    session = SavedModelSession(version)
    recorder = _Recorder(session)
    warm_up(recorder, version)
    seconds = time.monotonic() - began
    if not recorder.kept:
        raise UserError("it carries no warm-up requests: set export.warmup_requests above 0")
    with concurrent.futures.ThreadPoolExecutor(runs) as pool:
        for fetches, requests in recorder.kept.items():
            full = _full_batch(requests, rows)
            for done in [pool.submit(session.run, full, fetches) for _ in range(runs)]:
                done.result()
    return Measured(base, _status_bytes("VmHWM"), seconds)


def _full_batch(requests: "list[dict[str, np.ndarray]]", rows: int) -> "dict[str, np.ndarray]":
    """The rows of all requests, again and again until there are enough."""
    import numpy as np

    return {
        name: np.take(np.concatenate([one[name] for one in requests]), range(rows), 0, mode="wrap")
        for name in requests[0]
    }


def _status_bytes(field: str) -> int:
    """A size of this process as Linux tells it; `getrusage` would count that of the parent too."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise UserError(f"/proc/self/status has no {field}; measure on Linux")


if __name__ == "__main__":
    folder, most_rows, at_once = sys.argv[1:]
    found = _measure_here(pathlib.Path(folder), int(most_rows), int(at_once))
    print(_MARK + json.dumps(found._asdict()), flush=True)
