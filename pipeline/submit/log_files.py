"""What the processes of a job have printed, read from the files that hold it."""

import math
import time
from collections.abc import Callable, Iterator

from pipeline.places import Place, UrlPath
from pipeline.submit.contract import STAGES

JOB_LOG = "job.log"  # what the launcher itself reports
_POLL_SECONDS = 0.2
_URL_POLL_SECONDS = 5.0  # where each look is some requests, and logs come later than that


def read_logs(
    folder: Place,
    ended: Callable[[], bool] | None = None,
    ask_seconds: float = _POLL_SECONDS,
) -> Iterator[str]:
    """Lines of all files `*.log`, each with its file's name before it.

    Args:
        folder: Of the files: `<stage>-<worker>.log`, and the launcher's own.
        ended: Whether nothing will be added any more; if given, lines are yielded as they are
            written until that is so. What is there now if None.
        ask_seconds: Between two times that `ended` is asked at least, which may be a question to
            a server that many share.
    """
    tails: dict[Place, _Tail] = {}
    pause = _URL_POLL_SECONDS if isinstance(folder, UrlPath) else _POLL_SECONDS
    last, ask_at = False, -math.inf
    while not last:
        # Asked before the files are read, so that the last lines are not missed.
        if ended is None:
            last = True
        elif time.monotonic() >= ask_at:
            last = ended()
            ask_at = time.monotonic() + ask_seconds
        for path in sorted(folder.glob("*.log"), key=_place):
            tail = tails.setdefault(path, _Tail(path))
            for line in tail.lines(last):
                yield f"{path.stem}: {line}"
        if not last:
            time.sleep(pause)


class _Tail:
    """A file that is read on from where it was left."""

    def __init__(self, path: Place):
        self._path = path
        self._read = 0
        self._begun = b""

    def lines(self, last: bool) -> list[str]:
        """Lines that have been ended since the call before; the last time, all that is left."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            block = file.read()
        self._read += len(block)
        *whole, self._begun = (self._begun + block).split(b"\n")
        if last and self._begun:
            whole.append(self._begun)
        return [line.decode("utf-8", "replace") for line in whole]


def _place(path: Place) -> tuple[int, int, str]:
    """Before others the launcher's; then stages in their order, workers by number."""
    stage, _, worker = path.stem.partition("-")
    index = next((at for at, name in enumerate(STAGES) if name == stage), -1)
    return index, int(worker) if worker.isdecimal() else -1, path.stem
