"""The rules that drop pairs: by characters before tokenising, by pieces after it."""

import re

from pipeline.experiment import Cleaning
from pipeline.experiment.task_groups import ALIGNED_TASKS, TASKS_WITHOUT_SOURCE_IDS
from pipeline.prepare.reasons import (
    CONTROL_CHARACTERS,
    EMPTY,
    IDENTICAL,
    INVALID_UTF8,
    LENGTH_RATIO,
    NOT_ALIGNED,
    TOO_LONG,
    Dropped,
)

# Unicode's category Cc: C0, delete and C1. U+0085 (next line) is one of them: in text that
# is really UTF-8 it is almost always the ellipsis of Windows-1252, decoded wrongly. U+2028
# (line separator) is not one, and stays.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def check_characters(*sides: bytes, keep_blank: bool = False) -> None:
    """Hold a pair to the rules of every split: UTF-8, no control characters, not empty.

    Args:
        *sides: The sides that the task has.
        keep_blank: Let empty ones pass.

    Raises:
        Dropped: With the first of the three that a side breaks.
    """
    try:
        texts = [side.decode("utf-8") for side in sides]
    except UnicodeDecodeError:
        raise Dropped(INVALID_UTF8) from None
    # In a corpus whose lines stay as they are, a tab is as good as a space.
    if any(
        _has_control_characters(text.replace("\t", " ") if keep_blank else text) for text in texts
    ):
        raise Dropped(CONTROL_CHARACTERS)
    if not keep_blank and not all(text.strip() for text in texts):
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
    """Rules on the pieces of a pair.

    Args:
        cleaning: The limits.
        task: The task: the ratio is translation's, and in tagging the sides have one length.
        keep_blank: Let sides without pieces pass.
        keep_end: Cut the start off sources that are too long, since a question ends them.
    """

    def __init__(
        self,
        cleaning: Cleaning,
        task: str = "translation",
        keep_blank: bool = False,
        keep_end: bool = False,
    ):
        self._limits = (cleaning.max_source_length, cleaning.max_target_length)
        self._task = task
        self._keep_blank = keep_blank
        self._keep_end = keep_end
        if task in ALIGNED_TASKS:
            self._limits = (min(self._limits),) * 2
        self._max_ratio = cleaning.max_length_ratio
        self._truncate = cleaning.too_long == "truncate"

    def check(self, source: list[int], target: list[int]) -> None:
        """Hold a pair of any split to having pieces on the sides of its task.

        Raises:
            Dropped: If a side has none, as one of zero-width characters alone, or a sentence has
                more or fewer tags than words.
        """
        if self._keep_blank:
            return
        if not target or not (source or self._task in TASKS_WITHOUT_SOURCE_IDS):
            raise Dropped(EMPTY)
        if self._task not in TASKS_WITHOUT_SOURCE_IDS:
            self.check_alignment(source, target)

    def check_alignment(self, source: list[int], target: list[int]) -> None:
        """Hold a pair, the frames of a clip counted, to as many tags as there is to tag.

        Raises:
            Dropped: If there are more or fewer.
        """
        if self._task in ALIGNED_TASKS and len(source) != len(target):
            raise Dropped(NOT_ALIGNED)

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
        if self._task == "translation" and max(lengths) > self._max_ratio * min(lengths):
            raise Dropped(LENGTH_RATIO)
        if not longer:
            return source, target, False
        kept = source[-self._limits[0] :] if self._keep_end else source[: self._limits[0]]
        return kept, target[: self._limits[1]], True
