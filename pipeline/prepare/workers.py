"""Worker processes of Beam's local runner: started, watched, and ended for certain.

Beam's own worker processes go through a shell, outlive a parent that is killed, and leave
the runner waiting for ever when one of them is killed. These do not.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading
import uuid

from pipeline.prepare.engine import (
    Environment,
    GrpcWorkerHandler,
    SubprocessSDKEnvironment,
    WorkerHandler,
)

_URN = "seqloom:worker_process:v1"
_LAST_WORDS = 2000
_groups: dict[str, "WorkerGroup"] = {}


class WorkerGroup:
    """The worker processes of one run.

    Args:
        logs: Folder that receives what each worker writes on standard error.

    Attributes:
        failure: Why the workers were ended early, or None.
    """

    def __init__(self, logs: pathlib.Path):
        self.logs = logs
        self.failure: str | None = None
        self._name = uuid.uuid4().hex
        self._handlers: list[WorkerProcessHandler] = []
        _groups[self._name] = self

    def environment(self) -> Environment:
        """The Beam environment whose workers belong to this group."""
        return WorkerProcessEnvironment.from_command_string(self._name)

    def add(self, handler: "WorkerProcessHandler") -> None:
        """Take in a worker that has just been started."""
        self._handlers.append(handler)
        if self.failure:
            handler.kill()

    def end(self, reason: str) -> None:
        """Kill all workers and wake the runner, which otherwise waits for their answers."""
        self.failure = self.failure or reason
        for handler in list(self._handlers):
            handler.kill()
            handler.control_conn.abort(RuntimeError(reason))

    def last_words(self) -> str:
        """The ends of what the workers wrote on standard error."""
        logs = sorted(self.logs.glob("*.log"))
        return "\n".join(log.read_text(errors="replace")[-_LAST_WORDS:] for log in logs).strip()

    def close(self) -> None:
        """Kill what is left and forget the group."""
        for handler in self._handlers:
            handler.kill()
        _groups.pop(self._name, None)


@Environment.register_urn(_URN, bytes)
class WorkerProcessEnvironment(SubprocessSDKEnvironment):
    """Beam environment of a `WorkerGroup`; its command string is the group's name."""

    def to_runner_api_parameter(self, context):
        """Ask for the handler below in place of Beam's own."""
        return _URN, self.command_string.encode()

    @staticmethod
    def from_runner_api_parameter(payload, capabilities, artifacts, resource_hints, context):
        """Rebuild the environment from a pipeline's description."""
        name = payload.decode()
        return WorkerProcessEnvironment(name, capabilities, artifacts, resource_hints)


@WorkerHandler.register_environment(_URN, bytes)
class WorkerProcessHandler(GrpcWorkerHandler):
    """Runs one worker process for Beam's runner and tells the group if it dies."""

    _process: subprocess.Popen

    def __init__(self, payload, state, provision_info, grpc_server):
        super().__init__(state, provision_info, grpc_server)
        self._group = _groups[payload.decode()]
        self._ending = False

    def start_worker(self) -> None:
        """Start the process and the thread that waits for its end."""
        with open(self._group.logs / f"{self.worker_id}.log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pipeline.prepare.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment(),
            )
        threading.Thread(target=self._watch, daemon=True).start()
        self._group.add(self)

    def close(self) -> None:
        """End the connection to the worker, then the worker; the runner calls this last."""
        self._ending = True
        try:
            super().close()
        finally:
            self.kill()

    def stop_worker(self) -> None:
        """End the worker. What it made is written, and asking it to end would take seconds."""
        self.kill()

    def kill(self) -> None:
        """End the process now; no harm if it has ended."""
        self._ending = True
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            # The worker finds the same packages as this process, wherever it was started.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "CONTROL_API_SERVICE_DESCRIPTOR": f'url: "{self.control_address}"',
            "WORKER_ID": self.worker_id,
            "PIPELINE_OPTIONS": json.dumps({"default_sdk_harness_log_level": "CRITICAL"}),
        }

    def _watch(self) -> None:
        status = self._process.wait()
        if not self._ending:
            self._group.end(f"a worker process ended with status {status}")
