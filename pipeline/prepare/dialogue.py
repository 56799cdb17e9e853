"""Dialogue: conversations of turns, each a reply to those before it."""

from collections.abc import Iterator
from typing import Any

from models.separators import SENTENCE
from pipeline.prepare.reading import Block, GroupReader, starts_after_blank
from pipeline.prepare.sentences import join_sentences, without_separators


class DialogueReader(GroupReader):
    """A turn a line, and blank lines between conversations: replies to the turns before them."""

    @property
    def separators(self):
        """Between turns."""
        return (SENTENCE,)

    starts = staticmethod(starts_after_blank)

    def rows(self, block: Block) -> Iterator[tuple[int, Any]]:
        """Every turn but a conversation's first, with some before it."""
        for first, lines in self.groups(block):
            turns = [(first + offset, line) for offset, line in enumerate(lines) if line.strip()]
            for index in range(1, len(turns)):
                context = turns[max(index - self.corpus.context_turns, 0) : index + 1]
                yield turns[index][0], [turn.strip() for _, turn in context]

    def sides(self, lines):
        """The turns before, the oldest first, and the reply."""
        *context, reply = lines
        return join_sentences(context), without_separators(reply)
