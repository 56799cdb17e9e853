import http.client
import json
import logging
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import pytest

from models.errors import UserError
from serving.client import Client
from serving.server.announcement import ADDRESS_LINE
from serving.server.main import Server, serve
from serving.server.options import ServerOptions

ROOT = pathlib.Path(__file__).parents[3]


def options(base_path, **changes):
    defaults = {"port": 0, "rest_api_port": 0, "file_system_poll_wait_seconds": 0.05}
    return ServerOptions("translation", base_path, **(defaults | changes))


def eventually(condition, seconds=60):
    return any(condition() or time.sleep(0.05) for _ in range(seconds * 20))


def test_a_base_path_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such folder"):
        serve(options(tmp_path / "nowhere"))


def test_one_port_for_both(base_path):
    with pytest.raises(UserError, match="port and rest_api_port are both 8500"):
        Server(options(base_path, port=8500, rest_api_port=8500))


def test_an_address_file_that_cannot_be_written(base_path, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "folder", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=f"address file {place}: cannot be written"):
            serve(options(base_path, address_file=place))
    assert not list(tmp_path.glob("**/*.partial"))


@pytest.mark.parametrize(("flag", "api"), [("port", "gRPC"), ("rest_api_port", "REST")])
def test_a_port_in_use_is_told_before_the_load(base_path, flag, api):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shutil.rmtree(base_path / "1")  # A load would wait for ever.
        with pytest.raises(UserError, match=f"127.0.0.1:{port}: the server cannot.*{api}"):
            serve(options(base_path, **{flag: port}))


def test_two_servers_do_not_share_a_port(base_path):
    with Server(options(base_path)) as server:
        port = int(server.addresses.grpc.split(":")[1])
        with pytest.raises(UserError, match=f"127.0.0.1:{port}"):
            serve(options(base_path, port=port))


def test_a_host_of_another_machine(base_path):
    with pytest.raises(UserError, match="192.0.2.1:"):
        serve(options(base_path, host="192.0.2.1"))


def test_loopback_unless_told_otherwise(base_path, capsys):
    stop = threading.Event()
    stop.set()
    assert ServerOptions("m", base_path).host == "127.0.0.1"
    with Server(options(base_path)) as server:
        assert server.addresses.grpc.startswith("127.0.0.1:")
        assert server.addresses.rest.startswith("127.0.0.1:")


def run(options, then):
    """Serve in a thread, do something when it answers, stop; the exit status comes back."""
    stop, ready, status = threading.Event(), threading.Event(), []
    changed = ServerOptions(**{**vars(options), "announce": lambda addresses: ready.set()})
    thread = threading.Thread(target=lambda: status.append(serve(changed, stop)))
    thread.start()
    assert ready.wait(60)
    try:
        then()
    finally:
        stop.set()
        thread.join()
    return status[0]


def test_the_address_file_is_there_while_the_server_is(base_path, tmp_path):
    file = tmp_path / "run" / "addresses.json"

    def ask():
        addresses = json.loads(file.read_text())
        assert addresses["model_name"] == "translation"
        with Client(addresses["grpc"]) as grpc_, Client(addresses["rest"], "rest") as rest:
            assert grpc_.translate(["a"]) == rest.translate(["a"])

    assert run(options(base_path, address_file=file), ask) == 0
    assert not file.exists()


def test_a_line_tells_programs_the_addresses(base_path, capsys):
    stop = threading.Event()
    thread = threading.Thread(target=serve, args=(options(base_path), stop))
    thread.start()
    printed = []

    def announced():
        printed.extend(capsys.readouterr().out.splitlines())
        return any(line.startswith(ADDRESS_LINE) for line in printed)

    assert eventually(announced)
    stop.set()
    thread.join()
    (line,) = [line for line in printed if line.startswith(ADDRESS_LINE)]
    assert set(json.loads(line.removeprefix(ADDRESS_LINE))) == {"model_name", "grpc", "rest"}
    assert any("Only this machine can connect" in line for line in printed)


def test_a_model_that_cannot_be_loaded_is_status_1(tmp_path, caplog):
    (tmp_path / "1").mkdir()
    with caplog.at_level(logging.ERROR, "seqloom.serving"):
        assert serve(options(tmp_path)) == 1
    assert "translation version 1 failed to load" in caplog.text


def test_the_ports_open_when_the_first_version_arrives(tmp_path, tiny_exports, caplog):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    caplog.set_level(logging.INFO, "seqloom.serving")
    stop = threading.Event()
    waiting = options(tmp_path, rest_api_port=port)
    thread = threading.Thread(target=serve, args=(waiting, stop))
    thread.start()
    assert eventually(lambda: "no version of translation here yet" in caplog.text)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    shutil.copytree(tiny_exports[""], tmp_path / ".copying")
    (tmp_path / ".copying").rename(tmp_path / "1")
    with Client(f"127.0.0.1:{port}", "rest", retries=8) as client:
        assert client.translate(["a"])[0].text == "A"
    stop.set()
    thread.join()


def test_waiting_for_a_first_version_ends_with_status_0(tmp_path):
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert serve(options(tmp_path), stop) == 0


def test_a_rest_request_that_takes_too_long(base_path):
    with Server(options(base_path, rest_api_timeout_in_ms=100)) as server:
        connection = http.client.HTTPConnection(server.addresses.rest, timeout=60)
        connection.request("POST", "/v1/models/translation:predict", b'{"instances": ["wait:600"]}')
        response = connection.getresponse()
        assert response.status == 504
        assert json.load(response) == {"error": "Timed out waiting for notification"}


def test_requests_beyond_the_drain_are_given_up(base_path):
    server = Server(options(base_path, drain_seconds=0.2))
    server.start(threading.Event())
    failures = []

    def ask():
        try:
            # Nothing but the end of the server ends this.
            Client(server.addresses.grpc, timeout=600, retries=0).translate(["wait:600"])
        except UserError as error:
            failures.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    assert eventually(lambda: server._manager.get("translation")._versions[1].in_flight == 1)
    server.stop()
    thread.join()
    assert len(failures) == 1
    assert eventually(lambda: server._manager.get("translation")._versions[1].in_flight == 0)


@pytest.fixture
def process(base_path, tmp_path):
    """A server in a process of its own."""
    code = (
        "import pathlib, sys\n"
        "from serving.server.main import serve\n"
        "from serving.server.options import ServerOptions\n"
        "base, file = map(pathlib.Path, sys.argv[1:])\n"
        "sys.exit(serve(ServerOptions('translation', base, port=0, rest_api_port=0, "
        "address_file=file)))\n"
    )
    file = tmp_path / "addresses.json"
    process = subprocess.Popen([sys.executable, "-c", code, base_path, file], cwd=ROOT)
    assert eventually(file.exists, 120)
    yield process, json.loads(file.read_text())
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_loses_nothing_in_flight(process, number):
    process, addresses = process
    answers = {}

    def ask(protocol, client):
        answers[protocol] = client.translate(["wait:3", "slow"])

    clients = {name: Client(addresses[name], name, retries=0) for name in ("grpc", "rest")}
    threads = [threading.Thread(target=ask, args=item) for item in clients.items()]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    for client in clients.values():
        # These were sent later, and are answered: so the slow ones are being worked on.
        assert [one.state for one in client.status()] == ["AVAILABLE"]
    assert answers == {}
    process.send_signal(number)
    for thread in threads:
        thread.join()
    for client in clients.values():
        client.close()
    assert process.wait(60) == 0
    assert {name: [one.text for one in got] for name, got in answers.items()} == {
        "grpc": ["WAIT:3", "SLOW"],
        "rest": ["WAIT:3", "SLOW"],
    }
    with pytest.raises(UserError, match="no server answers there"):
        Client(addresses["grpc"], retries=0).translate(["late"])


def test_health_tells_that_the_server_is_leaving(base_path):
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    server = Server(options(base_path))
    server.start(threading.Event())
    with grpc.insecure_channel(server.addresses.grpc) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(), timeout=60
        )
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        stopping.join()
