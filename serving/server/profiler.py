"""tensorflow.ProfilerService: what TensorBoard's profiler asks for a trace of this process."""

import pathlib
import tempfile
import threading
from typing import Any

import grpc
import tensorflow as tf
from google.protobuf import descriptor_pb2
from tensorflow.python.profiler.internal import _pywrap_profiler
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from serving.server.described import Fields, message_classes
from serving.server.status import ServingError

SERVICE = "tensorflow.ProfilerService"

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "tensorflow"
# Fields of requests that are not heeded are left out; readers of messages pass over them.
_MESSAGES: dict[str, Fields] = {
    "ProfileOptions": {
        "host_tracer_level": (2, _Field.TYPE_UINT32),
        "device_tracer_level": (3, _Field.TYPE_UINT32),
        "python_tracer_level": (4, _Field.TYPE_UINT32),
        "duration_ms": (9, _Field.TYPE_UINT64),
    },
    "ProfileRequest": {
        "duration_ms": (1, _Field.TYPE_UINT64),
        "opts": (4, f".{_PACKAGE}.ProfileOptions"),
        "session_id": (6, _Field.TYPE_STRING),
    },
    "ProfileToolData": {"name": (1, _Field.TYPE_STRING), "data": (2, _Field.TYPE_BYTES)},
    "ProfileResponse": {
        "tool_data": (6, [f".{_PACKAGE}.ProfileToolData"]),
        "empty_trace": (7, _Field.TYPE_BOOL),
    },
    "TerminateRequest": {"session_id": (1, _Field.TYPE_STRING)},
    "TerminateResponse": {},
    "MonitorRequest": {},
    "MonitorResponse": {},
}
MESSAGES = message_classes("seqloom/serving/profiler_service.proto", _PACKAGE, _MESSAGES)

_TRACE_FILE = "xplane.pb"
_LEVELS = ("host_tracer_level", "device_tracer_level", "python_tracer_level")
# Traces grow in memory while they are taken.
_LONGEST_SECONDS = 600.0


class ProfilerService:
    """Profile, Terminate and Monitor.

    A request may name a folder for the server to write its trace to. No server should let strangers
    choose that, so the trace goes back in the response instead, and TensorFlow's own client writes
    it to the folder where it runs.
    """

    def __init__(self) -> None:
        """Take no trace yet."""
        self._changing = threading.Lock()
        self._ends: dict[str, threading.Event] = {}

    def handler(self) -> grpc.GenericRpcHandler:
        """What a gRPC server takes."""
        methods = {"Profile": self.profile, "Terminate": self.terminate, "Monitor": self.monitor}
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    method,
                    MESSAGES[f"{name}Request"].FromString,
                    MESSAGES[f"{name}Response"].SerializeToString,
                )
                for name, method in methods.items()
            },
        )

    def profile(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Trace this process for as long as the request says, or until the caller is gone."""
        end = threading.Event()
        context.add_callback(end.set)
        try:
            space = self._trace(request, end)
        except ServingError as error:
            return context.abort(error.code, error.grpc_details)
        response = MESSAGES["ProfileResponse"](empty_trace=_is_empty(space))
        response.tool_data.add(name=_TRACE_FILE, data=space)
        return response

    def terminate(self, request: Any, _: grpc.ServicerContext) -> Any:
        """Let a trace end now; what it has is sent to whoever asked for it."""
        with self._changing:
            end = self._ends.get(request.session_id)
        if end:
            end.set()
        return MESSAGES["TerminateResponse"]()

    def monitor(self, _: Any, context: grpc.ServicerContext) -> Any:
        """Refused, in the real server too."""
        return context.abort(grpc.StatusCode.UNIMPLEMENTED, "unimplemented.")

    def _trace(self, request: Any, end: threading.Event) -> bytes:
        """The trace, a serialised `XSpace`."""
        milliseconds = request.opts.duration_ms or request.duration_ms
        levels = {name: getattr(request.opts, name) for name in _LEVELS}
        with tempfile.TemporaryDirectory(prefix="trace") as folder:
            session = _pywrap_profiler.ProfilerSession()
            try:
                session.start(folder, levels)
            except tf.errors.OpError as error:
                # There can be one trace at a time.
                raise ServingError(grpc.StatusCode.INTERNAL, error.message) from None
            with self._changing:
                self._ends[request.session_id] = end
            try:
                end.wait(min(milliseconds / 1000, _LONGEST_SECONDS))
            finally:
                with self._changing:
                    del self._ends[request.session_id]
                session.export_to_tb()
            (path,) = pathlib.Path(folder).rglob(f"*{_TRACE_FILE}")
            return path.read_bytes()


def _is_empty(space: bytes) -> bool:
    planes = xplane_pb2.XSpace.FromString(space).planes
    return not any(line.events for plane in planes for line in plane.lines)
