"""Shards: encoded pairs on their way through the shuffle, and the files they end in."""

import array
import dataclasses
import gzip
import itertools
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

from pipeline.places import Place
from pipeline.prepare.features import PictureKey
from pipeline.prepare.hashing import SeededHash
from pipeline.prepare.picture_files import StoredPicture, shard_name
from pipeline.prepare.reasons import DUPLICATE
from pipeline.prepare.records import encode_example, frame
from pipeline.prepare.report import Report, ShardFacts, SideStatistics
from pipeline.prepare.sentences import picture_of
from pipeline.workspace import file_fingerprint


class EncodedPair(NamedTuple):
    """A pair with its ids. The order of the fields is the order within a shard.

    Attributes:
        digest: Hash of both sentences; equal pairs have equal digests.
        input: Index of the input.
        line: Number of the line, from 1.
        source: Piece ids, packed by `pack_ids`.
        target: Likewise.
        source_text: UTF-8.
        target_text: Likewise.
    """

    digest: bytes
    input: int
    line: int
    source: bytes
    target: bytes
    source_text: bytes
    target_text: bytes


class Pictures(Protocol):
    """Anything that writes pictures, as `PictureStore` does, or clips, as `ClipStore` does."""

    def rows(self, pieces: int) -> int:
        """Rows of a picture, by the source pieces of a record about it."""

    def write(self, shard: str, split: str, keys: Mapping[PictureKey, int]) -> list[Place]:
        """Write those of a shard, of so many rows each."""


def picture_key(pair: EncodedPair) -> PictureKey:
    """What tells the picture of a pair from others."""
    return pair.input, picture_of(pair.source_text)


_ID_TYPE = "I"  # uint32


def pack_ids(ids: list[int]) -> bytes:
    """Ids as bytes, which are small and quick to move; `unpack_ids` undoes it."""
    return array.array(_ID_TYPE, ids).tobytes()


def unpack_ids(packed: bytes) -> array.array:
    """The ids that `pack_ids` packed."""
    return array.array(_ID_TYPE, packed)


def pack_pairs(pairs: list[EncodedPair]) -> bytes:
    """Pairs as one element of the shuffle."""
    return pickle.dumps([tuple(pair) for pair in pairs], protocol=5)


def unpack_pairs(packed: Iterable[bytes]) -> Iterator[EncodedPair]:
    """The pairs of many packed elements."""
    for element in packed:
        yield from map(EncodedPair._make, pickle.loads(element))


@dataclasses.dataclass(frozen=True)
class ShardOptions:
    """How the shards of a split are written.

    Attributes:
        split: The split.
        names: File names of its shards.
        shuffled: Order the records by hash; else as they stand in the inputs.
        drop_duplicates: Keep the first of equal pairs.
        compression: `none` or `gzip`.
    """

    split: str
    names: tuple[str, ...]
    shuffled: bool
    drop_duplicates: bool
    compression: str


class ShardWriter:
    """Writes the shards of a split.

    What it writes depends on the pairs alone, not on the order in which they come.

    Args:
        options: How.
        folder: Where.
        input_names: Names of the inputs by index, for the records' `id`.
        order: Hash that orders shuffled records.
        pictures: Of tasks whose sources are pictures; None of others.
    """

    def __init__(
        self,
        options: ShardOptions,
        folder: Place,
        input_names: tuple[str, ...],
        order: SeededHash,
        pictures: Pictures | None = None,
    ):
        self._options = options
        self._folder = folder
        self._input_names = input_names
        self._order = order
        self._pictures = pictures

    def write(self, name: str, pairs: Iterable[EncodedPair]) -> Report:
        """Write one shard, whole or not at all.

        Args:
            name: File name of the shard.
            pairs: Its pairs, in any order.

        Returns:
            What was written and what was dropped as duplicate.
        """
        report = Report()
        kept = self._arrange(sorted(pairs), report)
        stored = self._write_pictures(name, kept, report)
        path = self._folder / name
        beside = path.with_name(f".{name}.{os.getpid()}.partial")
        with beside.open("wb") as file:
            self._write_records(file, kept, stored)
        beside.replace(path)  # type: ignore[arg-type]
        self._describe(path, kept, report)
        return report

    def _write_pictures(
        self, name: str, pairs: list[EncodedPair], report: Report
    ) -> dict[PictureKey, StoredPicture]:
        """Where the pictures of the pairs lie from now on."""
        if not self._pictures:
            return {}
        shard, split = shard_name(name), self._options.split
        rows = {
            picture_key(pair): self._pictures.rows(len(unpack_ids(pair.source))) for pair in pairs
        }
        for path in self._pictures.write(shard, split, rows):
            report.picture_files[split, path.name] = facts_of(path, sum(rows.values()))
        firsts = itertools.accumulate(rows.values(), initial=0)
        return {
            key: StoredPicture(self._folder, shard, first)
            for key, first in zip(rows, firsts, strict=False)
        }

    def _arrange(self, pairs: list[EncodedPair], report: Report) -> list[EncodedPair]:
        """Pairs in the order of the file, duplicates dropped or spread.

        Args:
            pairs: Sorted, so that the first of equal pairs comes first.
            report: Receives the duplicates.
        """
        kept = []
        for _, equal in itertools.groupby(pairs, key=lambda pair: pair.digest):
            first, *repeated = equal
            kept.append(first)
            if self._options.drop_duplicates:
                for pair in repeated:
                    report.drop(pair.input, self._options.split, DUPLICATE, pair.line)
            else:
                kept += map(self._elsewhere, repeated)
        if self._options.shuffled:
            return sorted(kept)
        return sorted(kept, key=lambda pair: (pair.input, pair.line))

    def _elsewhere(self, pair: EncodedPair) -> EncodedPair:
        """A repeated pair with a digest of its own, so that it does not follow its equal."""
        place = f"{pair.input}:{pair.line}".encode()
        return pair._replace(digest=self._order.digest(pair.digest + place))

    def _write_records(
        self, file: BinaryIO, pairs: list[EncodedPair], stored: dict[PictureKey, StoredPicture]
    ) -> None:
        records = (self._record(pair, stored.get(picture_key(pair))) for pair in pairs)
        if self._options.compression == "gzip":
            # No name and no time in the header: the same records give the same bytes.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                packed.writelines(records)
        else:
            file.writelines(records)

    def _record(self, pair: EncodedPair, picture: StoredPicture | None) -> bytes:
        identity = f"{self._input_names[pair.input]}:{pair.line}".encode()
        return frame(
            encode_example(
                unpack_ids(pair.source),
                unpack_ids(pair.target),
                pair.source_text,
                pair.target_text,
                identity,
                picture,
            )
        )

    def _describe(self, path: Place, pairs: list[EncodedPair], report: Report) -> None:
        split = self._options.split
        for pair in pairs:
            report.tallies[pair.input, split].pairs_out += 1
        for side in ("source", "target"):
            report.statistics[split, side] = side_statistics(
                [getattr(pair, side) for pair in pairs]
            )
        report.shards[split, path.name] = facts_of(path, len(pairs))


def facts_of(path: Place, rows: int) -> ShardFacts:
    """Describe a file of a number of rows."""
    return ShardFacts(rows=rows, bytes=path.stat().st_size, hash=file_fingerprint(path))


def side_statistics(packed: list[bytes]) -> SideStatistics:
    """Lengths and pieces of one side.

    Args:
        packed: Packed ids of each record.
    """
    lengths = np.array([len(ids) for ids in packed], np.int64) // array.array(_ID_TYPE).itemsize
    pieces = np.frombuffer(b"".join(packed), np.uint32)
    return SideStatistics(lengths=np.bincount(lengths), pieces=np.bincount(pieces))
