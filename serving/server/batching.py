"""A loaded model that answers several requests by one run."""

import collections
import dataclasses
import pathlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import grpc
import numpy as np

from serving.server.batch_tensors import check_output, merged, parts_of, rows_of
from serving.server.batching_rules import BatchingRules
from serving.server.metrics import Metrics
from serving.server.saved_model import SavedModelSession
from serving.server.session_rules import DEFAULT_RULES, SessionRules
from serving.server.status import ServingError, invalid_argument

# The tensors fed and fetched: requests that agree in them may share a run.
_Key = tuple[frozenset[str], tuple[str, ...]]


@dataclasses.dataclass(eq=False)
class _Task:
    """One request in a batch, and its answer."""

    feeds: Mapping[str, np.ndarray]
    size: int
    deadline: float | None
    came: float = dataclasses.field(default_factory=time.monotonic)
    done: threading.Event = dataclasses.field(default_factory=threading.Event)
    values: list[np.ndarray] = dataclasses.field(default_factory=list)
    error: ServingError | None = None


@dataclasses.dataclass(eq=False)
class _Batch:
    """Requests that will share a run."""

    opened: float
    tasks: list[_Task] = dataclasses.field(default_factory=list)
    size: int = 0
    closed: bool = False


class BatchingSession(SavedModelSession):
    """A SavedModel whose signatures have a queue each.

    A request of a whole signature waits in its queue until the batch is full or has waited long
    enough; one that asks for some outputs only runs alone, as in TensorFlow Serving. A request
    that fails fails its whole batch.
    """

    def __init__(
        self,
        path: pathlib.Path,
        rules: BatchingRules,
        metrics: Metrics,
        session_rules: SessionRules = DEFAULT_RULES,
    ):
        """Load the model, and start the threads that run batches.

        Args:
            path: Folder of the version.
            rules: How batches are made.
            metrics: Counts them.
            session_rules: What is loaded of it, and how it runs.

        Raises:
            ServingError: If it cannot be loaded.
        """
        self._rules = rules
        self._metrics = metrics
        self._changed = threading.Condition()
        self._queues: dict[_Key, collections.deque[_Batch]] = {}
        self._closing = False
        super().__init__(path, session_rules)
        for signature in self.signatures.values():
            fetches = (info.name for info in signature.outputs.values())
            key = _key([info.name for info in signature.inputs.values()], list(fetches))
            self._queues[key] = collections.deque()
        for number in range(rules.num_batch_threads):
            threading.Thread(target=self._work, name=f"batches {number}", daemon=True).start()

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_in_ms: int | None = None,
    ) -> list[np.ndarray]:
        """Compute tensors, together with other requests; see `SavedModelSession.run`."""
        key = _key(list(feeds), fetches)
        if key not in self._queues:
            return super().run(feeds, fetches, timeout_in_ms)
        deadline = time.monotonic() + timeout_in_ms / 1000 if timeout_in_ms else None
        tasks = [
            _Task(part, rows_of(part), deadline) for part in self._parts(feeds, rows_of(feeds))
        ]
        for task in tasks:
            self._enqueue(key, task)
        parts = [self._wait(task) for task in tasks]
        whole = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        by_name = dict(zip(key[1], whole, strict=True))
        return [by_name[name] for name in fetches]

    def close(self) -> None:
        """Give the memory back; requests that still wait fail."""
        with self._changed:
            self._closing = True
            waiting = [batch for queue in self._queues.values() for batch in queue]
            for queue in self._queues.values():
                queue.clear()
            self._changed.notify_all()
        gone = ServingError(grpc.StatusCode.CANCELLED, "The model is being unloaded")
        _fail([task for batch in waiting for task in batch.tasks], gone)
        super().close()

    def _parts(self, feeds: Mapping[str, np.ndarray], rows: int) -> Iterator[dict[str, np.ndarray]]:
        """What of a request goes into a batch: all, or where long ones are split a batch's rows."""
        if rows > self._rules.max_batch_size:
            raise invalid_argument(
                f"Task size {rows} is larger than maximum input batch size "
                f"{self._rules.max_batch_size}"
            )
        return parts_of(feeds, rows, self._rules.most_rows)

    @staticmethod
    def _wait(task: _Task) -> list[np.ndarray]:
        left = max(0.0, task.deadline - time.monotonic()) if task.deadline else None
        if not task.done.wait(left):
            raise ServingError(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        if task.error:
            raise task.error
        return task.values

    def _enqueue(self, key: _Key, task: _Task) -> None:
        most = self._rules.most_rows
        with self._changed:
            queue = self._queues[key]
            if queue and queue[-1].size + task.size > most:
                queue[-1].closed = True
            if not queue or queue[-1].closed:
                if len(queue) >= self._rules.max_enqueued_batches:
                    raise ServingError(
                        grpc.StatusCode.UNAVAILABLE,
                        "The batch scheduling queue to which this task was submitted is full; "
                        f"currently {len(queue)} batches enqueued and max_enqueued_batches is "
                        f"{self._rules.max_enqueued_batches}",
                    )
                queue.append(_Batch(time.monotonic()))
            queue[-1].tasks.append(task)
            queue[-1].size += task.size
            queue[-1].closed = queue[-1].size == most
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                taken = None
                while not self._closing and taken is None:
                    taken, wait = self._take()
                    if taken is None:
                        self._changed.wait(wait)
            if taken is None:
                return
            key, batch = taken
            try:
                self._answer(key, batch)
            except ServingError as error:
                _fail(batch.tasks, error)
            except Exception as error:
                message = f"{type(error).__name__}: {error}"
                _fail(batch.tasks, ServingError(grpc.StatusCode.INTERNAL, message))

    def _take(self) -> tuple[tuple[_Key, _Batch] | None, float | None]:
        """The batch that is due the longest; or none, and the seconds until one is."""
        heads = [(queue[0], key) for key, queue in self._queues.items() if queue]
        patience = self._rules.batch_timeout_micros / 1e6
        now = time.monotonic()
        due = [(b.opened, b, key) for b, key in heads if b.closed or b.opened + patience <= now]
        if due:
            _, batch, key = min(due, key=lambda entry: entry[0])
            return (key, self._queues[key].popleft()), None
        return None, min((batch.opened + patience - now for batch, _ in heads), default=None)

    def _answer(self, key: _Key, batch: _Batch) -> None:
        now = time.monotonic()
        late = [task for task in batch.tasks if task.deadline and task.deadline <= now]
        exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
        _fail(
            late, ServingError(exhausted, "Run() timeout exceeded while waiting in batching queue")
        )
        tasks = [task for task in batch.tasks if task not in late]
        if not tasks:
            return
        size = sum(task.size for task in tasks)
        padding = self._rules.padded(size) - size
        pad = self._rules.pad_variable_length_inputs
        feeds = {
            name: merged(name, [task.feeds[name] for task in tasks], padding, pad)
            for name in key[0]
        }
        # The run may take as long as the most patient of its requests.
        deadlines = [task.deadline for task in tasks if task.deadline]
        patient = len(deadlines) < len(tasks)
        timeout = None if patient else max(1, int((max(deadlines) - now) * 1000))
        self._metrics.record_batch(self._rules.thread_pool_name, [now - t.came for t in tasks])
        values = super().run(feeds, key[1], timeout)
        for value in values:
            check_output(value, size + padding)
        start = 0
        for task in tasks:
            task.values = [value[start : start + task.size] for value in values]
            start += task.size
            task.done.set()


def _key(feeds: Sequence[str], fetches: Sequence[str]) -> _Key:
    return frozenset(feeds), tuple(sorted(set(fetches)))


def _fail(tasks: Sequence[_Task], error: ServingError) -> None:
    for task in tasks:
        task.error = error
        task.done.set()
