"""The files that hold the pictures of a shard's records, each picture once.

Beside a shard lie NumPy arrays of as many rows as its records have different pictures. Records
tell the row, so that captions are shuffled without moving what they are about, and a row is read
where a batch needs it.

- `<shard>.features.npy`, float32 [R, C, F]: what a frozen network makes of each picture; for the
  model.
- `<shard>.pixels.npy`, uint8 [R, S, S, 3]: the middle square as the network sees it; for a network
  that is trained, and for pictures in TensorBoard.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from models.errors import UserError
from pipeline.places import Place, UrlPath

Kind = Literal["features", "pixels"]


class StoredPicture(NamedTuple):
    """Where a record's picture lies.

    Attributes:
        folder: Of the shard.
        shard: Its name, without endings.
        row: In the files beside it; of a clip, that of its first frame.
    """

    folder: Place
    shard: str
    row: int

    def read(self, kind: Kind) -> np.ndarray:
        """The row of one of the files.

        Raises:
            UserError: If there is no such file.
        """
        return self.read_frames(kind, 1)[0]

    def read_frames(self, kind: Kind, count: int) -> np.ndarray:
        """The rows of a clip of so many frames.

        Raises:
            UserError: If there is no such file.
        """
        rows = open_rows(self.folder / file_name(self.shard, kind))
        return rows[self.row : self.row + count]


def file_name(shard: str, kind: Kind) -> str:
    """Name of a file beside a shard."""
    return f"{shard_name(shard)}.{kind}.npy"


def shard_name(file: str) -> str:
    """Name of a shard without the endings of its files."""
    return file.split(".", 1)[0]


def open_rows(path: Place) -> np.ndarray:
    """A file's rows, which are read as they are asked for.

    Those of a file at a URL are read from a copy here, which a process makes once.

    Raises:
        UserError: If there is no such file, or it is cut short, or there is no room for a copy.
    """
    try:
        return _copied(path) if isinstance(path, UrlPath) else np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"{path}: no pictures can be read from it ({error}); run `seqloom prepare` again"
        ) from None


_copies: dict[UrlPath, np.ndarray] = {}
_lock = threading.Lock()


def _copied(path: UrlPath) -> np.ndarray:
    """The rows of a copy, whose name is gone at once: it ends with the process, however that ends.

    Raises:
        UserError: If there is no room for it.
    """
    with _lock:
        if path not in _copies:
            with tempfile.NamedTemporaryFile(prefix="seqloom-rows-") as copy, path.open() as file:
                try:
                    shutil.copyfileobj(file, copy, 1 << 20)
                    copy.flush()
                except OSError as error:
                    raise UserError(
                        f"{path}: cannot be copied to {copy.name} ({error.strerror or error}); "
                        f"make room there, or name another folder in the variable TMPDIR"
                    ) from None
                _copies[path] = np.load(copy.name, mmap_mode="r")
        return _copies[path]


def forget_copies() -> None:
    """Let go of the copies of rows, which others may have taken the place of."""
    with _lock:
        _copies.clear()


class RowsWriter:
    """Writes a file of rows, a batch after the other, whole or not at all.

    Without any row there is no file.

    Args:
        path: The file.
        count: Rows that will come.
    """

    def __init__(self, path: Place, count: int):
        self._path = path
        self._beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._count = count
        self._file = self._beside.open("wb") if count else None
        self._begun = False

    def add(self, rows: Sequence[np.ndarray] | np.ndarray) -> None:
        """Append rows of one shape, [N, ...]."""
        assert self._file is not None
        array = np.ascontiguousarray(rows)
        if not self._begun:
            self._begun = True
            header = {
                "descr": np.lib.format.dtype_to_descr(array.dtype),
                "fortran_order": False,
                "shape": (self._count, *array.shape[1:]),
            }
            np.lib.format.write_array_header_1_0(self._file, header)
        self._file.write(array.tobytes())

    def close(self) -> list[Place]:
        """Publish the file; a list of it, or an empty one."""
        if self._file is None:
            return []
        self._file.close()
        self._beside.replace(self._path)  # type: ignore[arg-type]
        return [self._path]
