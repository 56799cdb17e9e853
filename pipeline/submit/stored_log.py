"""A log at a URL, where files cannot be added to."""

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO

from pipeline.places import Place, UrlPath

_SECONDS = 10.0


class StoredLog(io.RawIOBase):
    """A file that grows: it is sent whole, again and again, behind what was there before.

    What cannot be sent now is sent the next time: what writes the log goes on meanwhile.

    Args:
        path: The file.
        seconds: Between two times that it is sent.
    """

    def __init__(self, path: UrlPath, seconds: float = _SECONDS):
        self._path = path
        self._seconds = seconds
        self._content = bytearray(path.read_bytes() if path.is_file() else b"")
        self._sent = len(self._content)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log {path}", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        """It is there to be written."""
        return True

    def write(self, block) -> int:  # type: ignore[override]
        """Add to it; returns how much."""
        self._content += block
        return len(block)

    def close(self) -> None:
        """Send what has not been sent, and complain if that cannot be."""
        if self.closed:
            return
        self._ended.set()
        self._thread.join()
        super().close()
        try:
            self._send()
        except Exception as error:
            print(f"seqloom: {self._path}: cannot be written ({error})", file=sys.stderr)

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            # Clients of stores have errors of their own, and none is worth the end of a training.
            with contextlib.suppress(Exception):
                self._send()

    def _send(self) -> None:
        content = bytes(self._content)
        if len(content) > self._sent:
            self._path.write_bytes(content)
            self._sent = len(content)


@contextlib.contextmanager
def opened_log(path: Place) -> Iterator[BinaryIO]:
    """A log to be added to, on a disk or at a URL."""
    with StoredLog(path) if isinstance(path, UrlPath) else path.open("ab", buffering=0) as file:
        yield file  # type: ignore[misc]
