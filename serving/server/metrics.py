"""What the server counts, as Prometheus reads it, under TensorFlow Serving's own names."""

import bisect
import itertools
import threading
import time
from collections.abc import Iterator, Sequence

from serving.server.json_values import quoted

PROMETHEUS_PATH = "/monitoring/prometheus/metrics"

# 10 microseconds to about 20 minutes.
_LATENCY_BOUNDS = [10 * 1.8**power for power in range(33)]
# 100 microseconds to about a second.
_QUEUING_BOUNDS = [100 * 1.2**power for power in range(52)]
_EXAMPLES_BOUNDS = [2**power for power in range(15)]
_PLACE = "/tensorflow/serving/"
# What executes the graphs, in the words of the real server.
_RUNTIME = "TF1"
# Names come from requests, and whoever sends ever new ones must not fill the memory.
_MOST_NAMES = 1000
_OTHERS = "(others)"


class Counter:
    """A number that grows, for each combination of labels."""

    kind = "counter"

    def __init__(self, labels: Sequence[str]):
        """Count from nothing.

        Args:
            labels: Names of the labels.
        """
        self._labels = labels
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, values: tuple[str, ...], number: int = 1) -> None:
        """Count one more, or several."""
        self._values[values] = self._values.get(values, 0) + number

    def first(self) -> int:
        """The number of the first combination of labels; 0 where nothing was counted."""
        return self._values[min(self._values)] if self._values else 0

    def lines(self, name: str) -> Iterator[str]:
        """The lines of the page."""
        for values, number in sorted(self._values.items()):
            yield f"{name}{{{_labelled(self._labels, values)}}} {number}"


class Histogram:
    """How often a value fell below each bound, for each combination of labels."""

    kind = "histogram"

    def __init__(self, labels: Sequence[str], bounds: Sequence[float]):
        """Count from nothing.

        Args:
            labels: Names of the labels.
            bounds: Upper bounds of the buckets but the last, which has none.
        """
        self._labels = labels
        self._bounds = bounds
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def add(self, values: tuple[str, ...], sample: float) -> None:
        """Count a sample."""
        counts = self._counts.setdefault(values, [0] * (len(self._bounds) + 1))
        counts[bisect.bisect_right(self._bounds, sample)] += 1
        self._sums[values] = self._sums.get(values, 0.0) + sample

    def lines(self, name: str) -> Iterator[str]:
        """The lines of the page."""
        bounds = [f"{bound:.6g}" for bound in self._bounds] + ["+Inf"]
        for values, counts in sorted(self._counts.items()):
            labels = _labelled(self._labels, values)
            below = list(itertools.accumulate(counts))
            before = f"{labels}," if labels else ""
            for bound, number in zip(bounds, below, strict=True):
                yield f'{name}_bucket{{{before}le="{bound}"}} {number}'
            yield f"{name}_sum{{{labels}}} {self._sums[values]:.6g}"
            yield f"{name}_count{{{labels}}} {below[-1]}"


class Metrics:
    """The requests of a server: how many ended how, and how long those took that went well.

    Of batches: how long requests waited for them, and how many ran. Of MultiInference: how many
    examples requests had. Of versions: how long their recorded requests took.
    """

    def __init__(self) -> None:
        """Count from nothing."""
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._requests = Counter(("model_name", "status"))
        self._latency = Histogram(("model_name", "API", "entrypoint"), _LATENCY_BOUNDS)
        self._runtime = Histogram(("model_name", "API", "runtime"), _LATENCY_BOUNDS)
        self._queuing = Histogram(("thread_pool_name",), _QUEUING_BOUNDS)
        self._batches = Counter(())
        self._examples = Histogram(("model",), _EXAMPLES_BOUNDS)
        self._all_examples = Counter(("model",))
        self._warm_ups = Histogram(("model_path", "status"), _LATENCY_BOUNDS)

    def record(self, model: str, api: str, entrypoint: str, status: str, started: float) -> None:
        """Count one request.

        Args:
            model: The model it asked.
            api: The method, `Predict` by gRPC and `predict` by REST.
            entrypoint: `GRPC` or `REST`.
            status: Name of its canonical code.
            started: When it began, of `time.monotonic()`.
        """
        microseconds = (time.monotonic() - started) * 1e6
        with self._lock:
            model = self._bounded(model)
            self._requests.add((model, status))
            if status == "OK":
                self._latency.add((model, api, entrypoint), microseconds)

    def record_run(self, model: str, api: str, started: float) -> None:
        """Count one run of a graph that went well.

        Args:
            model: The model.
            api: The method, in the words of gRPC for REST too.
            started: When it began, of `time.monotonic()`.
        """
        microseconds = (time.monotonic() - started) * 1e6
        with self._lock:
            self._runtime.add((model, api, _RUNTIME), microseconds)

    def record_batch(self, pool: str, waited: Sequence[float]) -> None:
        """Count one batch that is about to run.

        Args:
            pool: Name of the threads that run batches.
            waited: Seconds that each of its requests waited.
        """
        with self._lock:
            self._batches.add(())
            for seconds in waited:
                self._queuing.add((pool,), seconds * 1e6)

    def record_examples(self, model: str, number: int) -> None:
        """Count the examples of one request.

        Args:
            model: The model.
            number: How many it has.
        """
        with self._lock:
            self._examples.add((model,), number)
            self._all_examples.add((model,), number)

    def record_warm_up(self, path: str, started: float) -> None:
        """Count one version that has answered its recorded requests.

        Args:
            path: Its folder.
            started: When it began to, of `time.monotonic()`.
        """
        microseconds = (time.monotonic() - started) * 1e6
        with self._lock:
            self._warm_ups.add((path, "OK"), microseconds)

    def value(self, name: str) -> int:
        """What a counter has come to, of its first combination of labels.

        Args:
            name: As the real server names it inside, `/tensorflow/serving/request_count`.

        Returns:
            The number; 0 if there is no such counter.
        """
        family = self._families().get(name.removeprefix(_PLACE).replace("/", ":"))
        if not name.startswith(_PLACE) or not isinstance(family, Counter):
            return 0
        with self._lock:
            return family.first()

    def _families(self) -> dict[str, Counter | Histogram]:
        return {
            "request_count": self._requests,
            "request_latency": self._latency,
            "runtime_latency": self._runtime,
            "batching_session:queuing_latency": self._queuing,
            "batching_session:wrapped_run_count": self._batches,
            "request_example_counts": self._examples,
            "request_example_count_total": self._all_examples,
            "model_warmup_latency": self._warm_ups,
        }

    def _bounded(self, model: str) -> str:
        """The name to count under; after the first thousand, all new ones are one."""
        if model not in self._names and len(self._names) >= _MOST_NAMES:
            return _OTHERS
        self._names.add(model)
        return model

    def page(self) -> bytes:
        """All of it in Prometheus's text format."""
        lines: list[str] = []
        with self._lock:
            for name, family in self._families().items():
                full = f":tensorflow:serving:{name}"
                lines += [f"# TYPE {full} {family.kind}", *family.lines(full)]
        return ("\n".join(lines) + "\n").encode()


def _labelled(names: Sequence[str], values: Sequence[str]) -> str:
    return ",".join(f"{name}={quoted(value)}" for name, value in zip(names, values, strict=True))
