"""`seqloom read-lips`: clips in, a line with what is said in it out for each."""

import io
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image

from models.errors import UserError
from models.vision.problems import PROBLEMS
from pipeline.places import Place, place
from pipeline.predict import Predicts
from pipeline.prepare.clips import clip_files, read_clip
from pipeline.prepare.reasons import BROKEN_CLIP, HUGE_PICTURE, NO_CLIP, NO_FRAMES, Dropped
from pipeline.translate import asked_model, check_streams
from serving.signatures import ERROR_CODE, FRAMES_BYTES, READ_LIPS, TEXT

_MAX_PIXELS = 50_000_000  # of a frame of a video; the model may take fewer

_REASONS = {
    NO_CLIP: "no such file; name a clip, a video or a folder of its frames",
    NO_FRAMES: "holds no frame; name a video, or a folder of pictures",
    BROKEN_CLIP: "not a whole video, or none that PyAV reads; name one, or a folder of its frames",
    HUGE_PICTURE: f"a video whose frames have more than {_MAX_PIXELS:,} pixels; scale it down",
}


class ReadClip(NamedTuple):
    """What became of a clip."""

    path: Place
    problem: str | None  # what is wrong with it
    text: str  # what is said; empty where there is a problem


def read_lips(
    paths: Sequence[Place],
    server: str,
    rest: bool,
    model: Place | None,
    model_name: str,
    max_frames: int,
    timeout: float,
) -> None:
    """Print each clip's path, a tab, and what is said in it.

    Args:
        paths: Videos, and folders of frames.
        server: `host:port`; the API's usual port of this machine if empty.
        rest: Ask over REST, not gRPC.
        model: An exported model to use in place of a server, or None.
        model_name: Name the server knows the model by.
        max_frames: Frames that are sent of a clip.
        timeout: Seconds a clip may take.

    Raises:
        UserError: If a clip cannot be read, after the texts of the others; or if there is no such
            server or model, or what reads videos is not installed.
        SystemExit: With status 1, if the server fails.
    """
    check_streams("output")
    problems = []
    with asked_model(server, rest, model, model_name, 1, timeout) as predictor:
        for each in read_all(predictor, paths, max_frames):
            if each.problem:
                problems.append(f"{each.path}: {each.problem}")
                continue
            line = f"{each.path}\t{' '.join(each.text.split())}\n"
            sys.stdout.buffer.write(line.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
    if problems:
        raise UserError("\n".join(problems))


def read_all(predictor: Predicts, paths: Sequence[Place], max_frames: int) -> Iterator[ReadClip]:
    """Ask for the texts of clips, of which some may be none, one after the other."""
    for path in paths:
        try:
            files = frames_of(path, max_frames)
        except Dropped as dropped:
            yield ReadClip(path, _REASONS[dropped.reason], "")
            continue
        except OSError as error:
            yield ReadClip(path, f"cannot be read ({error.strerror}); name another clip", "")
            continue
        (row,) = predictor.predict({FRAMES_BYTES: [files]}, READ_LIPS.name)
        code = int(row[ERROR_CODE])
        told = PROBLEMS.get(code, f"the model has the error code {code} for it")
        yield ReadClip(path, f"has a frame that is {told}" if code else None, row[TEXT])


def frames_of(path: Place, max_frames: int) -> list[bytes]:
    """The frames of a clip as files of pictures: those of its folder, or a video's as PNG.

    Raises:
        Dropped: If it is no clip.
        OSError: If a file of a folder cannot be read.
        UserError: If it is a video, and what reads videos is not installed.
    """
    if path.is_dir():
        files = [place(each).read_bytes() for each in clip_files(str(path))[:max_frames]]
    else:
        pictures = zip(range(max_frames), read_clip(str(path), _MAX_PIXELS), strict=False)
        files = [_png(Image.fromarray(frame)) for _, frame in pictures]
    if not files:
        raise Dropped(NO_FRAMES)
    return files


def _png(picture: Image.Image) -> bytes:
    """A file without loss, so that the model sees what `prepare` does."""
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=1)
    return file.getvalue()
