r"""bAbI, the format of stories with questions in them (Weston et al. 2015).

A line is `number text`, or `number question\tanswer\tsupporting lines`. A story begins where the
numbers begin again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from models.separators import QUESTION, SENTENCE
from pipeline.prepare.reading import Block, GroupReader
from pipeline.prepare.reasons import BROKEN_BABI, EMPTY, Dropped
from pipeline.prepare.sentences import join_question, join_sentences


class Question(NamedTuple):
    """One question of a story."""

    story: list[bytes]  # the sentences before it; questions are none
    question: bytes
    answer: bytes


def starts_story(before: bytes, line: bytes) -> bool:
    """Whether a line's number is 1, or not above that of the line before."""
    number, number_before = _number(line), _number(before)
    if number is None:
        return False
    return number == 1 or (number_before is not None and number <= number_before)


def parse_questions(lines: Sequence[bytes]) -> Iterator[tuple[int, Question | Dropped]]:
    """The questions of a story, each with how many lines after the first it stands.

    A line that cannot be read stands in their place. Blank lines say nothing.

    Args:
        lines: Of one story, without their ends.
    """
    story: list[bytes] = []
    for offset, line in enumerate(lines):
        if not line.strip():
            continue
        text, *columns = line.partition(b" ")[2].split(b"\t")
        if _number(line) is None or (columns and not text.strip()):
            yield offset, Dropped(BROKEN_BABI)
        elif not columns and text.strip():
            story.append(text.strip())
        elif not columns or not columns[0].strip():
            yield offset, Dropped(EMPTY)
        else:
            yield offset, Question(list(story), text.strip(), columns[0].strip())


def _number(line: bytes) -> int | None:
    digits = line.partition(b" ")[0]
    # Python reads more than ASCII's digits, and a limit keeps what it reads short.
    return int(digits) if digits.isdigit() and len(digits) < 10 else None


class BabiReader(GroupReader):
    """bAbI, a story a record: its questions, each behind the sentences before it."""

    starts = staticmethod(starts_story)

    @property
    def separators(self):
        """Between sentences, and before the question."""
        return SENTENCE, QUESTION

    def rows(self, block: Block) -> Iterator[tuple[int, Any]]:
        """The questions of all stories, and the lines that cannot be read."""
        for first, lines in self.groups(block):
            for offset, found in parse_questions(lines):
                yield first + offset, found

    def sides(self, lines):
        """Story and question, and the answer, which may be a list, as it stands."""
        if isinstance(lines, Dropped):
            raise lines
        return join_question(join_sentences(lines.story), lines.question), lines.answer
