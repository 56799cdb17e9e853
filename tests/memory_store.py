"""A store of objects in the memory of this process, which Beam and TensorFlow share."""

import io
import time

import tensorflow as tf

from pipeline.prepare.engine import BeamIOError

from apache_beam.io.filesystem import FileMetadata, FileSystem  # isort: skip

# When files were written here; TensorFlow keeps no times in memory.
WRITTEN: dict[str, float] = {}


class MemoryFileSystem(FileSystem):
    """TensorFlow's file system in memory, for Beam: what one writes the other reads."""

    @classmethod
    def scheme(cls):
        return "ram"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        return tuple(path.rpartition("/")[::2])

    def mkdirs(self, path):
        raise BeamIOError("folders of a store of objects are not made")

    def has_dirs(self):
        return False

    def _list(self, dir_or_prefix):
        # As a store of objects does: whatever begins so, at any depth.
        for path in sorted(self._all()):
            if path.startswith(dir_or_prefix):
                yield self.metadata(path)

    def _all(self):
        """What was written here, and what TensorFlow has in the folders that it made."""
        of_tensorflow = (
            f"{folder}/{name}" for folder, _, names in tf.io.gfile.walk("ram://") for name in names
        )
        return {*WRITTEN, *of_tensorflow}

    def create(self, path, mime_type="", compression_type=""):
        assert compression_type in ("", "uncompressed")
        return WholeFile(path)

    def open(self, path, mime_type="", compression_type=""):
        assert compression_type in ("", "uncompressed")
        with tf.io.gfile.GFile(path, "rb") as file:
            return io.BytesIO(file.read())

    def copy(self, sources, destinations):
        for source, destination in zip(sources, destinations, strict=True):
            with self.open(source) as read, self.create(destination) as written:
                written.write(read.read())

    def rename(self, sources, destinations):
        self.copy(sources, destinations)
        self.delete(sources)

    def exists(self, path):
        return path in self._all()

    def size(self, path):
        return self.metadata(path).size_in_bytes

    def last_updated(self, path):
        return self.metadata(path).last_updated_in_seconds

    def checksum(self, path):
        return str(self.size(path))

    def metadata(self, path):
        facts = tf.io.gfile.stat(path)
        return FileMetadata(path, facts.length, WRITTEN.get(path, 0.0))

    def delete(self, paths):
        for path in paths:
            WRITTEN.pop(path, None)
            tf.io.gfile.remove(path)


class WholeFile(io.BytesIO):
    """A file that is there when it is closed."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def close(self):
        if not self.closed:
            if self.path in WRITTEN:
                tf.io.gfile.remove(self.path)  # It would be appended to.
            WRITTEN[self.path] = time.time()
            with tf.io.gfile.GFile(self.path, "wb") as file:
                file.write(self.getvalue())
        super().close()
