"""Which Beam runner runs the pipeline, and running it so that it ends cleanly."""

import contextlib
import io
import logging
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
from pipeline.prepare.runners.contract import Preset
from pipeline.prepare.runners.kinds import make_preset
from pipeline.prepare.runners.local import LocalPreset
from pipeline.prepare.stages import COUNTERS
from pipeline.prepare.workers import WorkerGroup

_POLL_SECONDS = 0.1
_SECONDS_TO_UNWIND = 3.0
# Beam sends what a worker thread has written each second, even the half of an element that
# it is still writing, which the runner then reads as something else. Sent by size, at the
# end of an element, it is whole; worker processes do so anyway.
_NEVER_MS = 24 * 60 * 60 * 1000
# Threads of Beam's that fail, as they must, when the worker they talk to is killed.
_THREADS_OF_WORKERS = ("beam_control_read", "read_grpc_client_inputs")


class PipelineRun:
    """Runs one pipeline with the runner that an experiment names.

    Args:
        cluster: The experiment's section.
        logs: Folder that receives the workers' standard error.

    Raises:
        UserError: If the runner is refused or unknown, or an option is not one of Beam's, or
            one that the runner needs is missing.
    """

    def __init__(self, cluster: ClusterSection, logs: pathlib.Path):
        preset = make_preset(cluster)
        self._group = WorkerGroup(logs)
        self._options = _make_options(preset)
        self._runner = self._make_runner(preset)
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
            The pipeline's own counters by name; none if the runner keeps none.

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

    def _make_runner(self, preset: Preset) -> beam.runners.PipelineRunner:
        if isinstance(preset, LocalPreset):
            return FnApiRunner(default_environment=self._environment(preset.cluster.running_mode))
        try:
            return create_runner(preset.beam_name)
        except (ValueError, ImportError, AttributeError) as error:
            raise UserError(
                f"cluster.runner: {preset.cluster.runner} is not to be had: {error}"
            ) from None

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


def _make_options(preset: Preset) -> PipelineOptions:
    given = preset.cluster.beam_options
    try:
        with contextlib.redirect_stderr(io.StringIO()) as complaint:
            # The experiment's own flags come last, so that they win.
            options = PipelineOptions(preset.flags() + given)
            known = options.get_all_options()  # Beam reads them only now.
            every = options.get_all_options(retain_unknown_options=True)
    except (SystemExit, ValueError):
        said = complaint.getvalue().strip().rpartition("\n")[2]
        raise UserError(f"cluster.beam_options: {given}: {said}") from None
    unknown = sorted(set(every) - set(known))
    # Runners elsewhere have options that Beam learns of only from them.
    if unknown and isinstance(preset, LocalPreset):
        raise UserError(
            f"cluster.beam_options: Beam has no option --{unknown[0]} for the runner local; "
            f"correct it, or leave it out"
        )
    preset.check(options)
    return options


def _counters(result: PipelineResult) -> dict[str, int]:
    found = result.metrics().query(MetricsFilter().with_namespace(COUNTERS))["counters"]
    totals: dict[str, int] = {}
    for counter in found:
        if counter.result is None:
            return {}  # Of a job service that keeps the names alone.
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
