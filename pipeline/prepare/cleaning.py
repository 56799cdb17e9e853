"""The rules that drop pairs: by characters before tokenising, by pieces after it."""

import re

from pipeline.experiment import Cleaning
from pipeline.prepare.reasons import (
    CONTROL_CHARACTERS,
    EMPTY,
    IDENTICAL,
    INVALID_UTF8,
    LENGTH_RATIO,
    TOO_LONG,
    Dropped,
)

# Unicode's category Cc: C0, delete and C1. U+0085 (next line) is one of them: in text that
# is really UTF-8 it is almost always the ellipsis of Windows-1252, decoded wrongly. U+2028
# (line separator) is not one, and stays.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def check_characters(source: bytes, target: bytes) -> None:
    """Hold a pair to the rules of every split: UTF-8, no control characters, not empty.

    Raises:
        Dropped: With the first of the three that either side breaks.
    """
    try:
        source_text, target_text = source.decode("utf-8"), target.decode("utf-8")
    except UnicodeDecodeError:
        raise Dropped(INVALID_UTF8) from None
    if _has_control_characters(source_text) or _has_control_characters(target_text):
        raise Dropped(CONTROL_CHARACTERS)
    if not source_text.strip() or not target_text.strip():
        raise Dropped(EMPTY)


def _has_control_characters(text: str) -> bool:
    # isprintable is several times quicker than the search and true of most sentences.
    return not text.isprintable() and _CONTROL.search(text) is not None


def check_difference(source: bytes, target: bytes) -> None:
    """Hold a pair to the rule that its sides differ, white space around them aside.

    Raises:
        Dropped: If they do not.
    """
    if source.strip() == target.strip():
        raise Dropped(IDENTICAL)


class LengthRules:
    """Limits on the pieces of a pair.

    Args:
        cleaning: The limits.
    """

    def __init__(self, cleaning: Cleaning):
        self._limits = (cleaning.max_source_length, cleaning.max_target_length)
        self._max_ratio = cleaning.max_length_ratio
        self._truncate = cleaning.too_long == "truncate"

    def apply(self, source: list[int], target: list[int]) -> tuple[list[int], list[int], bool]:
        """Hold a pair of the training split to the limits.

        The ratio is of the lengths before truncation.

        Args:
            source: Piece ids, at least one.
            target: Likewise.

        Returns:
            The ids to keep of either side, and whether any were cut off.

        Raises:
            Dropped: If the pair breaks a limit.
        """
        lengths = len(source), len(target)
        longer = lengths[0] > self._limits[0] or lengths[1] > self._limits[1]
        if longer and not self._truncate:
            raise Dropped(TOO_LONG)
        if max(lengths) > self._max_ratio * min(lengths):
            raise Dropped(LENGTH_RATIO)
        if not longer:
            return source, target, False
        return source[: self._limits[0]], target[: self._limits[1]], True


def check_pieces(source: list[int], target: list[int]) -> None:
    """Hold a pair of any split to the rule that normalising leaves pieces on both sides.

    Raises:
        Dropped: If a side has none, as one of zero-width characters alone.
    """
    if not source or not target:
        raise Dropped(EMPTY)
