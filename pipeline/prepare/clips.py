"""Clips: a folder of frames, or a video; held to being whole, and stored frame by frame."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from models.errors import UserError
from pipeline.experiment import CorpusFile, PictureOptions
from pipeline.places import Place, UrlPath, is_url
from pipeline.prepare.features import PictureKey, network_of
from pipeline.prepare.picture_files import RowsWriter, file_name
from pipeline.prepare.pictures import open_file, picture_path, read_picture, size_and_hash
from pipeline.prepare.reasons import BROKEN_CLIP, HUGE_PICTURE, NO_CLIP, NO_FRAMES, Dropped
from pipeline.prepare.report import PictureFacts
from pipeline.workspace import fingerprint


class BrokenFrame(Dropped):
    """Raised where one frame of a clip cannot be read.

    Attributes:
        frame: Its file, in the clip's folder.
    """

    def __init__(self, reason: str, frame: str):
        super().__init__(reason)
        self.frame = frame


def clip_files(path: str) -> list[str]:
    """The files of a clip: those of a folder by name, hidden ones aside, or the video itself."""
    if not is_folder(path):
        return [path]
    names = [each.name for each in UrlPath(path).iterdir()] if is_url(path) else os.listdir(path)
    return [os.path.join(path, name) for name in sorted(names) if not name.startswith(".")]


def is_folder(path: str) -> bool:
    """Whether a clip is a folder of frames."""
    return UrlPath(path).is_dir() if is_url(path) else os.path.isdir(path)


def read_clip(path: str, max_pixels: int) -> Iterator[np.ndarray]:
    """The frames of a clip, one after the other.

    Args:
        path: A folder of pictures, which are its frames in the order of their names, or a video;
            or the URL of either.
        max_pixels: Pixels of a frame at most.

    Yields:
        Uint8 [H, W, 3] each.

    Raises:
        Dropped: If there is no such clip, or a frame cannot be read.
        UserError: If it is a video, and what reads videos is not installed.
    """
    if not is_folder(path):
        yield from _read_video(path, max_pixels)
        return
    for file in clip_files(path):
        try:
            yield read_picture(file, max_pixels)
        except Dropped as dropped:
            raise BrokenFrame(dropped.reason, os.path.basename(file)) from None


def _read_video(path: str, max_pixels: int) -> Iterator[np.ndarray]:
    file = open_file(path)
    if file is None:
        raise Dropped(NO_CLIP)
    with file:
        yield from _frames(path, file, max_pixels)


def _frames(path: str, file: BinaryIO, max_pixels: int) -> Iterator[np.ndarray]:
    try:
        import av
    except ImportError:
        raise UserError(
            f"{path}: a video, and what reads videos is not installed; run: "
            f"pip install 'seqloom[video]', or name a folder with a picture of each frame"
        ) from None
    try:
        # By its path where it has one, whose ending tells raw streams apart.
        with av.open(file if is_url(path) else path, "r") as container:
            if not container.streams.video:
                raise Dropped(NO_FRAMES)
            size = container.streams.video[0].codec_context
            if size.width * size.height > max_pixels:
                raise Dropped(HUGE_PICTURE)
            for frame in container.decode(video=0):
                # What is torn ends in a frame of which a part is guessed.
                if frame.is_corrupt:
                    raise Dropped(BROKEN_CLIP)
                yield frame.to_ndarray(format="rgb24")  # [H, W, 3]
    except (av.error.FFmpegError, OSError, ValueError):
        raise Dropped(BROKEN_CLIP) from None


class ClipCheck:
    """Holds the clips of pairs to what can be read, each clip once.

    Args:
        inputs: Split and description of each input, by index.
        options: Limits.
    """

    def __init__(self, inputs: Sequence[tuple[str, CorpusFile]], options: PictureOptions):
        self._inputs = inputs
        self._options = options
        self._found: dict[PictureKey, PictureFacts] = {}

    def __call__(self, index: int, name: bytes) -> PictureFacts:
        """What the clip of a name in an input is."""
        if (index, name) not in self._found:
            path = picture_path(self._inputs[index][1], name)
            self._found[index, name] = inspect_clip(path, self._options.max_pixels)
        return self._found[index, name]


def inspect_clip(path: str, max_pixels: int) -> PictureFacts:
    """Read a clip to see how many frames it has, and what is wrong with it, if anything."""
    frames, reason, broken = 0, None, None
    try:
        for _ in read_clip(path, max_pixels):
            frames += 1
        if not frames:
            raise Dropped(NO_FRAMES)
    except BrokenFrame as dropped:
        reason, broken = dropped.reason, dropped.frame
    except Dropped as dropped:
        reason = dropped.reason
    except ValueError:  # A name that no file can have.
        reason = NO_CLIP
    return PictureFacts(reason, *size_and_hash_of_clip(path), frames, broken)


def size_and_hash_of_clip(path: str) -> tuple[int, str | None]:
    """Size and hash of all bytes of a clip, and of the names of its frames."""
    try:
        if not is_folder(path):
            return size_and_hash(path)
        found = [(os.path.basename(file), *size_and_hash(file)) for file in clip_files(path)]
    except (OSError, ValueError):
        if is_url(path):  # Where nothing answers, which says nothing of the clip.
            raise
        return 0, None
    return sum(size for _, size, _ in found), fingerprint([(name, each) for name, _, each in found])


class ClipStore:
    """Writes the clips of a shard, a row a frame: the middle square as the network sees it.

    Args:
        inputs: Split and description of each input, by index.
        options: Network and sizes.
        folder: Where.
    """

    def __init__(
        self,
        inputs: Sequence[tuple[str, CorpusFile]],
        options: PictureOptions,
        folder: Place,
    ):
        self._inputs = inputs
        self._options = options
        self._folder = folder

    def rows(self, pieces: int) -> int:
        """A clip has a row a frame, and its record numbers them."""
        return pieces

    def write(self, shard: str, split: str, keys: Mapping[PictureKey, int]) -> list[Place]:
        """Write the frames of the clips of a shard, clip after clip in the order of `keys`.

        Args:
            shard: Its name.
            split: Of the shard.
            keys: The clips, and how many of their frames are kept.

        Returns:
            The file, or none where there are no clips.
        """
        path = self._folder / file_name(shard, "pixels")
        writer = RowsWriter(path, sum(keys.values()))
        for (index, name), count in keys.items():
            clip = picture_path(self._inputs[index][1], name)
            frames = itertools.islice(read_clip(clip, self._options.max_pixels), count)
            written = 0
            while some := list(itertools.islice(frames, self._options.batch_size)):
                squares = network_of(self._options).crop(some)  # [N, S, S, 3]
                writer.add(np.rint(squares).astype(np.uint8))
                written += len(some)
            if written != count:
                raise UserError(
                    f"{clip}: has {written} frames, and had {count} just before; run "
                    f"`seqloom prepare` again when nothing writes to it"
                )
        return writer.close()
