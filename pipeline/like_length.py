"""Work in batches of like length, so that few positions are pads."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_batches(
    items: Sequence[Item],
    lengths: Sequence[int],
    size: int,
    answer: Callable[[list[Item]], Sequence[Answer]],
    advance: Callable[[int], None] | None = None,
) -> list[Answer]:
    """Answer items, the shortest first.

    Args:
        items: What is asked.
        lengths: Of each.
        size: Items a batch at most.
        answer: Gives an answer for each item of a batch.
        advance: Told how many items are done, after each batch.

    Returns:
        An answer for each item, in the order of the items.
    """
    order = sorted(range(len(items)), key=lambda index: lengths[index])
    answers: dict[int, Answer] = {}
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        answers.update(zip(chosen, answer([items[index] for index in chosen]), strict=True))
        if advance:
            advance(len(chosen))
    return [answers[index] for index in range(len(items))]
