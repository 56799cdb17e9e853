"""Curriculum by length: short pairs first, longer ones as the epochs go by."""

import dataclasses
import math
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """Which lengths an epoch admits (Bengio et al. 2009, section 4).

    The share of the range of lengths that is admitted starts at `start` and is whole after
    `epochs`: evenly for `linear`, and for `root` so that it grows the slower the more is
    admitted, `sqrt(start² + (1 - start²) · epoch / epochs)` (Platanios et al. 2019, eq. 7).

    It is a function of the epoch alone, so that a run that is resumed admits what it admitted.

    Attributes:
        growth: `linear` or `root`.
        start: Share admitted in the first epoch.
        epochs: Epochs until everything is.
    """

    growth: Literal["linear", "root"] = "linear"
    start: float = 0.25
    epochs: int = 4

    def share(self, epoch: int) -> float:
        """Share of the range of lengths that an epoch from 0 admits."""
        done = min(epoch / self.epochs, 1.0)
        if self.growth == "root":
            return math.sqrt(self.start**2 + (1.0 - self.start**2) * done)
        return self.start + (1.0 - self.start) * done

    def longest(self, epoch: int, shortest: int, longest: int) -> int:
        """Greatest length that an epoch admits.

        Args:
            epoch: From 0.
            shortest: Least length of all pairs.
            longest: Greatest length of all pairs.

        Returns:
            At least `shortest`, so that no epoch is without a pair.
        """
        return shortest + math.floor(self.share(epoch) * (longest - shortest) + 1e-9)
