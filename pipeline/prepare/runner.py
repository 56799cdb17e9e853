"""Which Beam runner runs the pipeline, and running it so that it ends cleanly."""

import contextlib
import io
import logging
import os
import pathlib
import threading
from collections.abc import Callable, Iterator

from models.errors import UserError
from pipeline.experiment import ClusterSection
from pipeline.prepare.engine import (
    EmbeddedPythonGrpcEnvironment,
    Environment,
    FnApiRunner,
    MetricsFilter,
    PipelineOptions,
    PipelineResult,
    beam,
    create_runner,
)
from pipeline.prepare.stages import COUNTERS
from pipeline.prepare.workers import WorkerGroup

_POLL_SECONDS = 0.1
_SECONDS_TO_UNWIND = 3.0
_LOCAL_RUNNERS = ("FnApiRunner", "DirectRunner")
# Beam sends what a worker thread has written each second, even the half of an element that
# it is still writing, which the runner then reads as something else. Sent by size, at the
# end of an element, it is whole; worker processes do so anyway.
_NEVER_MS = 24 * 60 * 60 * 1000
# Threads of Beam's that fail, as they must, when the worker they talk to is killed.
_THREADS_OF_WORKERS = ("beam_control_read", "read_grpc_client_inputs")


def check_runner(cluster: ClusterSection) -> None:
    """Hold the experiment's runner to being one that keeps every record.

    Raises:
        UserError: If it is not.
    """
    if "dask" in cluster.runner.lower():
        raise UserError(
            f"cluster.runner: {cluster.runner} is refused, because Beam's runner on Dask loses "
            "records without a word. Use FnApiRunner, which takes all cores of one machine, or "
            "a runner for a cluster: FlinkRunner, SparkRunner, DataflowRunner"
        )


def worker_count(cluster: ClusterSection) -> int:
    """Workers on this machine: as many as the experiment says, or one a core."""
    if cluster.running_mode == "in_memory":
        return 1
    return cluster.workers or _cores()


def _cores() -> int:
    # Not all platforms can say which cores this process may use.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class PipelineRun:
    """Runs one pipeline with the runner that an experiment names.

    `DirectRunner` is taken for `FnApiRunner`: the local runner that Beam's own
    `DirectRunner` turns to as well, but only after it has tried to download another.

    Args:
        cluster: The experiment's section.
        logs: Folder that receives the workers' standard error.

    Raises:
        UserError: If the runner is refused or unknown, or an option is not one of Beam's.
    """

    def __init__(self, cluster: ClusterSection, logs: pathlib.Path):
        check_runner(cluster)
        self._group = WorkerGroup(logs)
        self._runner = self._make_runner(cluster)
        self._options = _make_options(cluster)
        self._result: PipelineResult | None = None
        self._error: Exception | None = None

    def run(
        self, build: Callable[[beam.Pipeline], None], poll: Callable[[], None]
    ) -> dict[str, int]:
        """Run the pipeline to its end.

        Whether it succeeds, fails or is interrupted, no worker process outlives the call.

        Args:
            build: Adds the steps to an empty pipeline.
            poll: Called several times a second while the pipeline runs.

        Returns:
            The pipeline's own counters by name.

        Raises:
            RuntimeError: If the pipeline fails.
        """
        thread = threading.Thread(target=self._run, args=(build,), daemon=True)
        with _silence():
            try:
                thread.start()
                while thread.is_alive() and not self._group.failure:
                    thread.join(_POLL_SECONDS)
                    poll()
            except BaseException:
                self._stop()
                raise
            finally:
                # Without its workers Beam gives up, or waits for ever and is left behind.
                thread.join(_SECONDS_TO_UNWIND if self._group.failure else None)
                self._group.close()
            if self._error or self._group.failure:
                raise RuntimeError(self._failure()) from self._error
        return _counters(self._result) if self._result else {}

    def _make_runner(self, cluster: ClusterSection) -> beam.runners.PipelineRunner:
        if cluster.runner in _LOCAL_RUNNERS:
            return FnApiRunner(default_environment=self._environment(cluster.running_mode))
        try:
            return create_runner(cluster.runner)
        except (ValueError, ImportError, AttributeError) as error:
            raise UserError(f"cluster.runner: {cluster.runner} is not to be had: {error}") from None

    def _environment(self, running_mode: str) -> Environment | None:
        if running_mode == "multi_processing":
            return self._group.environment()
        if running_mode == "multi_threading":
            environment = EmbeddedPythonGrpcEnvironment.default()
            environment.data_buffer_time_limit_ms = _NEVER_MS
            return environment
        return None  # Beam's own, in this very thread.

    def _run(self, build: Callable[[beam.Pipeline], None]) -> None:
        try:
            pipeline = beam.Pipeline(runner=self._runner, options=self._options)
            build(pipeline)
            self._result = pipeline.run()
            self._result.wait_until_finish()
        except Exception as error:
            self._error = error

    def _stop(self) -> None:
        self._group.end("interrupted")
        if self._result:
            with contextlib.suppress(Exception):
                self._result.cancel()  # Of a runner elsewhere; not all of them can.

    def _failure(self) -> str:
        if not self._group.failure:
            return f"the pipeline failed: {self._error}"
        return (
            f"the pipeline failed: {self._group.failure}. If it was killed for want of memory, "
            f"give it fewer workers (cluster.workers) or smaller shards (data.shards)\n"
            f"{self._group.last_words()}"
        )


def _make_options(cluster: ClusterSection) -> PipelineOptions:
    flags = [f"--direct_num_workers={worker_count(cluster)}"]
    try:
        with contextlib.redirect_stderr(io.StringIO()) as complaint:
            # The experiment's own flags come last, so that they win.
            options = PipelineOptions(flags + cluster.beam_options)
            known = options.get_all_options()  # Beam reads them only now.
            every = options.get_all_options(retain_unknown_options=True)
    except (SystemExit, ValueError):
        said = complaint.getvalue().strip().rpartition("\n")[2]
        raise UserError(f"cluster.beam_options: {cluster.beam_options}: {said}") from None
    unknown = sorted(set(every) - set(known))
    # Runners elsewhere have options that Beam learns of only from them.
    if unknown and cluster.runner in _LOCAL_RUNNERS:
        raise UserError(
            f"cluster.beam_options: {cluster.runner} has no option --{unknown[0]}; correct it, or "
            f"leave it out"
        )
    return options


def _counters(result: PipelineResult) -> dict[str, int]:
    found = result.metrics().query(MetricsFilter().with_namespace(COUNTERS))["counters"]
    totals: dict[str, int] = {}
    for counter in found:
        name = counter.key.metric.name
        totals[name] = totals.get(name, 0) + counter.result
    return totals


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep Beam and its threads from reporting what `PipelineRun` reports itself.

    After a failure the silence stays, for threads that lost their worker notice it late.
    """
    loggers = [logging.getLogger(name) for name in ("apache_beam", "grpc")]
    levels = [logger.level for logger in loggers]
    excepthook = threading.excepthook

    def report_unless_expected(failure):
        if failure.thread is None or failure.thread.name not in _THREADS_OF_WORKERS:
            excepthook(failure)

    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    threading.excepthook = report_unless_expected
    yield
    threading.excepthook = excepthook
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
