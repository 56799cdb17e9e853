"""Makes a dialogue corpus of plays: the turns of all speakers, one a line.

    python data/build_dialogue_corpus.py $SEQLOOM_DATA/tinyshakespeare/input.txt runs/plays.txt

A turn of the plays is a line `Speaker:`, the lines spoken, and a blank line. Scenes are not
marked in them, so that all turns are one conversation.
"""

import pathlib
from collections.abc import Iterator
from typing import Annotated

import typer


def turns(text: str) -> Iterator[str]:
    """What each speaker says, in one line, in the order of the plays."""
    for block in text.split("\n\n"):
        speaker, _, spoken = block.strip().partition("\n")
        if speaker.endswith(":") and spoken.strip():
            yield " ".join(spoken.split())


def main(
    plays: Annotated[pathlib.Path, typer.Argument(help="The plays.")],
    out: Annotated[pathlib.Path, typer.Argument(help="Gets a turn a line.")],
    first: Annotated[int | None, typer.Option(help="Turns at most; all if not given.")] = None,
) -> None:
    """Make the corpus."""
    found = list(turns(plays.read_text(encoding="utf-8")))[:first]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(f"{turn}\n" for turn in found), encoding="utf-8")
    print(f"{len(found):,} turns in {out}")


if __name__ == "__main__":
    typer.run(main)
