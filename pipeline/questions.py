"""Questions to a model: in batches of like length, answered by one worker or by many."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

import rich.console

from pipeline.monitor.counting import counting
from pipeline.train.replicas import Replicas

Item = TypeVar("Item")


def _nothing(places: list[int]) -> list[str]:
    """No answers, to no questions."""
    return [""] * len(places)


@dataclasses.dataclass(frozen=True)
class Questions:
    """What a model is asked, in batches that are answered one after another.

    An answer depends on its batch alone, and not on who answers the others: many workers find
    what one would.

    Attributes:
        batches: Places of the questions of each batch; there is every place from 0.
        answer: Gives a text for each of the questions at some places.
        doing: What answering is called, such as `translating`.
        unit: What a question is called, in the plural.
    """

    batches: list[list[int]] = dataclasses.field(default_factory=list)
    answer: Callable[[list[int]], Sequence[str]] = _nothing
    doing: str = "answering"
    unit: str = "questions"

    @classmethod
    def of_like_length(
        cls,
        items: Sequence[Item],
        lengths: Sequence[int],
        size: int,
        answer: Callable[[list[Item]], Sequence[str]],
        doing: str = "answering",
        unit: str = "questions",
    ) -> Self:
        """Questions about items, the shortest first, so that few positions are pads.

        Args:
            items: What is asked about.
            lengths: Of each.
            size: Items a batch at most.
            answer: Gives a text for each item of a batch.
            doing: What answering is called.
            unit: What an item is called, in the plural.
        """
        order = sorted(range(len(items)), key=lambda place: lengths[place])
        batches = [order[first : first + size] for first in range(0, len(order), size)]

        def by_place(places: list[int]) -> Sequence[str]:
            return answer([items[place] for place in places])

        return cls(batches, by_place, doing, unit)

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(map(len, self.batches))

    def share(self, worker: int, workers: int) -> "Questions":
        """Those that a worker answers: whole batches, long ones and short ones."""
        return dataclasses.replace(self, batches=self.batches[worker::workers])

    def answers(self, advance: Callable[[int], None]) -> dict[int, str]:
        """The answers, by place.

        Args:
            advance: Told how many more are there, after each batch.
        """
        found: dict[int, str] = {}
        for places in self.batches:
            found.update(zip(places, self.answer(places), strict=True))
            advance(len(places))
        return found


def answer_together(
    questions: Questions, replicas: Replicas, console: rich.console.Console | None = None
) -> list[str]:
    """Answer questions, each worker its share of them.

    Args:
        questions: The questions, the same on all workers, each of which has to come here.
        replicas: Of the run.
        console: Where progress of this worker's share is shown; nowhere if None.

    Returns:
        An answer for each, in the order of the places, on all workers.
    """
    if not questions.batches:
        return []
    cluster = replicas.cluster
    share = questions.share(cluster.index, cluster.workers)
    if console is None:
        own = share.answers(lambda count: None)
    else:
        with counting(console, share.doing, share.count, share.unit) as advance:
            own = share.answers(advance)
    told = [pair for each in replicas.gather(list(own.items())) for pair in each]
    found = {place: text for place, text in told}
    return [found[place] for place in range(questions.count)]
