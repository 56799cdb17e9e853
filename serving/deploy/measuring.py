"""The program that `serving.deploy.memory` starts: loads an export and answers full batches.

    python -m serving.deploy.measuring EXPORT/VERSION ROWS RUNS

prints one line of JSON, the fields of `Measured`.
"""

import concurrent.futures
import json
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from models.errors import UserError
from serving.deploy.contract import Measured
from serving.deploy.memory import MARK
from serving.server.saved_model import Runner, SavedModelSession
from serving.server.warmup import warm_up

Feeds = Mapping[str, np.ndarray]


class _Recorder(Runner):
    """Runs requests, and keeps those of each signature."""

    def __init__(self, session: SavedModelSession):
        self._session = session
        # Feeds of the requests by what they fetched.
        self.kept: dict[tuple[str, ...], list[Feeds]] = {}

    @property
    def signatures(self) -> Mapping[str, meta_graph_pb2.SignatureDef]:
        """Those of the session."""
        return self._session.signatures

    @property
    def checks_method_names(self) -> bool:
        """As the session does."""
        return self._session.checks_method_names

    def run(
        self, feeds: Feeds, fetches: Sequence[str], timeout_in_ms: int | None = None
    ) -> list[np.ndarray]:
        """What the session computes."""
        self.kept.setdefault(tuple(fetches), []).append(feeds)
        return self._session.run(feeds, fetches, timeout_in_ms)


def measure_here(version: pathlib.Path, rows: int, runs: int) -> Measured:
    """Load an export in this process; see `serving.deploy.memory.measure`."""
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


def _full_batch(requests: Sequence[Feeds], rows: int) -> Feeds:
    """The rows of all requests, again and again until there are enough."""
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
    found = measure_here(pathlib.Path(folder), int(most_rows), int(at_once))
    print(MARK + json.dumps(found._asdict()), flush=True)
