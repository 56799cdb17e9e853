"""How far the work is: marks that workers leave, which the command counts."""

from pipeline.places import Place

READING, SAMPLING, TRAINING, WRITING = "read", "sample", "train", "write"
STAGES = (READING, SAMPLING, TRAINING, WRITING)


class Milestones:
    """Marks that workers leave in a folder, one a finished piece of work.

    A mark made twice, as by a runner that repeats work, counts once.

    Args:
        folder: The folder, which exists.
    """

    def __init__(self, folder: Place):
        self._folder = folder

    def reach(self, stage: str, piece: str) -> None:
        """Mark a piece of a stage's work as done."""
        (self._folder / f"{stage} {piece}").touch()

    def count(self) -> dict[str, int]:
        """Pieces done, by stage."""
        counts = dict.fromkeys(STAGES, 0)
        for mark in self._folder.iterdir():
            counts[mark.name.partition(" ")[0]] += 1
        return counts
