"""tensorflow.ProfilerService, asked by TensorFlow's own client and by plain calls."""

import subprocess
import sys
import threading
import time

import grpc
import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from serving.client import Client
from serving.server.profiler import MESSAGES, SERVICE

TRACE = """
import sys
from tensorflow.python.profiler import profiler_client

profiler_client.trace(sys.argv[1], sys.argv[2], 500, "", 10)
"""


@pytest.fixture(scope="module")
def call(tiny_server):
    with grpc.insecure_channel(tiny_server.addresses.grpc) as channel:

        def method(name):
            return channel.unary_unary(
                f"/{SERVICE}/{name}",
                MESSAGES[f"{name}Request"].SerializeToString,
                MESSAGES[f"{name}Response"].FromString,
            )

        yield method


@pytest.fixture
def busy(tiny_server):
    """Somebody asks for translations all the time."""
    done = threading.Event()

    def ask():
        with Client(tiny_server.addresses.grpc) as client:
            while not done.wait(0.005):
                client.translate(["a"])

    asking = threading.Thread(target=ask)
    asking.start()
    yield
    done.set()
    asking.join()


def request(session_id, milliseconds):
    made = MESSAGES["ProfileRequest"](session_id=session_id)
    made.opts.duration_ms = milliseconds
    made.opts.host_tracer_level = 2
    return made


def events(space):
    planes = xplane_pb2.XSpace.FromString(space).planes
    return [event for plane in planes for line in plane.lines for event in line.events]


def failure(future):
    with pytest.raises(grpc.RpcError) as caught:
        future.result()
    return caught.value.code().name, caught.value.details()


def test_tensorflows_client_saves_a_trace(tiny_server, busy, tmp_path):
    command = [sys.executable, "-c", TRACE, tiny_server.addresses.grpc, str(tmp_path / "logs")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (path,) = (tmp_path / "logs/plugins/profile").glob("*/*xplane.pb")
    assert events(path.read_bytes())


def test_the_server_writes_nowhere(call, busy, tmp_path):
    asked = request("one", 100).SerializeToString()
    # The field that names a folder, which this server's description of the message leaves out.
    folder = str(tmp_path).encode()
    asked += b"\x2a" + bytes([len(folder)]) + folder
    response = call("Profile")(MESSAGES["ProfileRequest"].FromString(asked), timeout=60)
    (trace,) = response.tool_data
    assert trace.name == "xplane.pb"
    assert response.empty_trace == (not events(trace.data))
    assert not list(tmp_path.iterdir())


def test_there_is_one_trace_at_a_time_and_it_can_be_ended(call):
    first = None
    for _ in range(1000):
        if first is None or first.done():  # The second was at work when it came.
            first = call("Profile").future(request("first", 500_000), timeout=400)
        # Until the first has begun, it is this one that runs.
        second = call("Profile").future(request("second", 1), timeout=60)
        if second.exception():
            break
    code, details = failure(second)
    assert code == "INTERNAL"
    assert "active" in details
    call("Terminate")(MESSAGES["TerminateRequest"](session_id="first"), timeout=60)
    assert first.result(timeout=60).tool_data


def test_a_trace_ends_with_its_caller(call):
    gone = call("Profile").future(request("gone", 500_000), timeout=0.3)
    assert failure(gone)[0] == "DEADLINE_EXCEEDED"
    for _ in range(1000):
        # It may take a moment to end; an endless one would fail all of these.
        following = call("Profile").future(request("next", 1), timeout=60)
        if not following.exception():
            break
        time.sleep(0.02)
    assert following.result().tool_data


def test_monitoring_is_refused_as_in_the_real_server(call):
    future = call("Monitor").future(MESSAGES["MonitorRequest"](), timeout=60)
    assert failure(future) == ("UNIMPLEMENTED", "unimplemented.")
