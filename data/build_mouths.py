r"""Renders clips of a drawn mouth that spells a word, as folders of frames and JSON lines.

    python data/build_mouths.py runs/mouths-data

The frames go to `clips/train`, `clips/valid` and `clips/test`, a folder a clip, and what is said to
`train.jsonl`, `valid.jsonl` and `test.jsonl`: objects of `clip`, a path below `clips`, `text`, and
`tags`, the letter of each frame, or `-` where the mouth closes or is closed.

A word is two syllables, so that nothing but the mouth tells it. Those of `valid` and `test` never
come in `train`, half of whose clips say the first syllable alone: what is short is learned first,
and what is long from it. Each letter has a shape of its own, into which the mouth moves from the
one before. Place, size, speed, colours and noise differ from clip to clip.
"""

import itertools
import json
import pathlib
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np
import typer
from PIL import Image

CLIPS = {"train": 3000, "valid": 100, "test": 500}
SIZE = 32  # pixels of a side


class Mouth(NamedTuple):
    """A shape; all but the width are shares of it."""

    width: float  # of the opening, over that of the widest
    height: float  # of the opening
    teeth: float  # height of the upper teeth, over that of the opening
    tongue: float  # likewise


SILENT = "-"
CLOSED = Mouth(0.75, 0.0, 0.0, 0.0)
LETTERS = {
    "a": Mouth(0.7, 1.0, 0.0, 0.3),
    "e": Mouth(0.9, 0.5, 0.3, 0.0),
    "i": Mouth(1.0, 0.2, 0.0, 0.0),
    "o": Mouth(0.4, 0.9, 0.0, 0.0),
    "u": Mouth(0.2, 0.9, 0.0, 0.0),
    "f": Mouth(0.7, 0.2, 0.9, 0.0),
    "k": Mouth(0.6, 0.6, 0.0, 0.8),
    "l": Mouth(0.8, 0.7, 0.3, 0.6),
    "m": Mouth(0.45, 0.0, 0.0, 0.0),
    "s": Mouth(1.0, 0.4, 0.9, 0.0),
    "t": Mouth(0.7, 0.6, 0.6, 0.0),
}
SYLLABLES = [consonant + vowel for consonant in "fklmst" for vowel in "aeiou"]


def words_of(split: str) -> list[str]:
    """Words of two syllables: a tenth is kept for the test split, and another for the valid one."""
    every = ["".join(pair) for pair in itertools.product(SYLLABLES, repeat=2)]
    np.random.default_rng(0).shuffle(every)
    tenth = len(every) // 10
    parts = {"test": every[:tenth], "valid": every[tenth : 2 * tenth], "train": every[2 * tenth :]}
    return parts[split]


def text_of(split: str, words: list[str], generator: np.random.Generator) -> str:
    """What a clip of a split says."""
    text = str(generator.choice(words))
    return text[:2] if split == "train" and generator.random() < 0.5 else text


class Shape(NamedTuple):
    """The mouth at a frame."""

    tag: str  # what it says, or is about to say
    mouth: Mouth


def shapes(text: str, generator: np.random.Generator) -> list[Shape]:
    """The mouth at each frame, from closed to closed."""
    speed = generator.uniform(0.8, 1.2)
    frames = [Shape(SILENT, CLOSED)] * int(generator.integers(1, 3))
    for tag in [*text, SILENT]:
        before, target = frames[-1].mouth, CLOSED if tag == SILENT else LETTERS[tag]
        # On its way for a frame, and there for one or two.
        held = max(1, round(generator.uniform(0.8, 2.2) / speed))
        middle = Mouth(*((one + other) / 2 for one, other in zip(before, target, strict=True)))
        moving = [Shape(tag, middle)] * int(generator.random() < 0.7)
        frames += moving + [Shape(tag, target)] * held
    return frames


def render(frames: list[Shape], generator: np.random.Generator) -> Iterator[Image.Image]:
    """Pictures of a mouth that moves, in a place, a size and colours drawn for the clip."""
    center = SIZE / 2 + generator.uniform(-4, 4, 2)
    scale = generator.uniform(7, 10)
    skin = np.array([205, 160, 135]) + generator.uniform(-40, 40) + generator.uniform(-10, 10, 3)
    lips = np.array([165, 70, 75]) + generator.uniform(-25, 25, 3)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    light = generator.uniform(-1.0, 1.0, 2)  # brighter to one side
    shade = ((columns - SIZE / 2) * light[0] + (rows - SIZE / 2) * light[1])[..., np.newaxis]
    for _, mouth in frames:
        drift = generator.normal(0.0, 0.2, 2)
        x = (columns - center[0] - drift[0]) / scale  # [S, S]
        y = (rows - center[1] - drift[1]) / scale
        picture = np.broadcast_to(skin, (SIZE, SIZE, 3)).copy()
        half = mouth.height / 2
        picture[_ellipse(x, y, mouth.width + 0.2, half + 0.2)] = lips
        opening = _ellipse(x, y, mouth.width, half)
        picture[opening] = (45, 15, 20)
        picture[opening & (y < half * (2 * mouth.teeth - 1))] = (235, 230, 220)
        low = _ellipse(x, y - half, mouth.width * 0.7, mouth.tongue * mouth.height)
        picture[opening & low] = (200, 90, 100)
        picture += shade + generator.normal(0.0, 6.0, picture.shape)
        yield Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))


def _ellipse(x: np.ndarray, y: np.ndarray, width: float, height: float) -> np.ndarray:
    """Where an ellipse of these half axes is, bool [S, S]; nowhere if it has no height."""
    return (x / max(width, 1e-6)) ** 2 + (y / max(height, 1e-6)) ** 2 < 1.0


def main(
    out: Annotated[pathlib.Path, typer.Argument(help="Folder that is made or filled.")],
    share: Annotated[float, typer.Option(help="Of the clips, all if 1.")] = 1.0,
):
    """Render all splits; the same clips every time."""
    for number, (split, count) in enumerate(CLIPS.items()):
        generator = np.random.default_rng(number)
        words, lines = words_of(split), []
        for index in range(max(1, round(share * count))):
            text = text_of(split, words, generator)
            name = f"{split}/{index:04d}"
            folder = out / "clips" / name
            folder.mkdir(parents=True, exist_ok=True)
            frames = shapes(text, generator)
            for frame, picture in enumerate(render(frames, generator)):
                picture.save(folder / f"{frame:03d}.png", compress_level=1)
            tags = " ".join(each.tag for each in frames)
            lines.append(json.dumps({"clip": name, "text": text, "tags": tags}))
        (out / f"{split}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        print(f"{len(lines):,} clips of {len(words):,} words: {split}")


if __name__ == "__main__":
    typer.run(main)
