"""Clients that are slow, silent, gone or greedy do not keep others from being answered."""

import contextlib
import http.client
import json
import socket
import struct
import sys
import time
import urllib.parse

import grpc
import pytest
from tensorflow_serving.apis import predict_pb2

from serving.client import Client
from serving.server import patience
from serving.server.main import Server
from serving.server.options import ServerOptions

PREDICT = "/v1/models/translation:predict"
HEAD = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n".encode()
BODY = b'{"instances": ["a"]}'


@pytest.fixture
def server(base_path, monkeypatch):
    """One of little patience and memory."""
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(patience, "MOST_CONNECTIONS", 20)
    options = ServerOptions(
        "translation", base_path, port=0, rest_api_port=0, threads=2, rest_api_max_body_bytes=1000
    )
    with Server(options) as server:
        yield server


@pytest.fixture
def opened():
    """Paths that Python opens or lists in this process, as they happen."""
    paths, events = [], {"open", "os.listdir", "os.scandir"}

    def heed(event, arguments):
        if event in events and arguments:
            paths.append(str(arguments[0]))

    sys.addaudithook(heed)
    yield paths
    events.clear()  # The hook itself stays for ever.


@pytest.fixture
def connect(server):
    with contextlib.ExitStack() as stack:

        def connect(address=server.addresses.rest):
            host, port = address.split(":")
            return stack.enter_context(socket.create_connection((host, int(port)), timeout=60))

        yield connect


def answers(server):
    with Client(server.addresses.rest, "rest") as client:
        return client.translate(["a"])[0].text == "A"


def received(connection):
    """All until the server closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def test_a_client_that_says_nothing_is_dropped(server, connect):
    connections = [connect() for _ in range(10)]
    assert answers(server)
    assert [received(one) for one in connections] == [b""] * 10


def test_a_head_that_trickles_in_is_dropped(server, connect):
    connection = connect()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for byte in HEAD * 1000:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
    assert answers(server)


def test_a_body_that_trickles_in_is_given_up(server, connect):
    connections = [connect() for _ in range(5)]
    for connection in connections:
        connection.sendall(HEAD + BODY[:5])
    assert answers(server)
    for connection in connections:
        assert received(connection).startswith(b"HTTP/1.1 408 ")


def test_a_second_request_that_never_ends_is_dropped(server, connect):
    connection = connect()
    connection.sendall(HEAD + BODY)
    answer = b""
    while not answer.endswith(b"\n}"):
        answer += connection.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200 ")
    connection.sendall(HEAD[:30])
    assert received(connection) == b""


def test_a_client_that_is_gone_before_its_body_asks_nothing(server, connect):
    for _ in range(5):
        connection = connect()
        connection.sendall(HEAD + BODY[:5])
        # Closed with a reset, as by a machine that died.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert answers(server)
    request_counts = server._metrics._requests._values
    assert sum(request_counts.values()) == 1


def test_connections_beyond_the_most_are_told_so(server, connect):
    connections = [connect() for _ in range(25)]
    connections[-1].sendall(HEAD + BODY)
    assert received(connections[-1]).startswith(b"HTTP/1.1 503 ")
    for connection in connections:
        connection.close()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(server.addresses.rest, timeout=30)
        connection.request("POST", PREDICT, BODY)
        status = connection.getresponse().status
        connection.close()
        if status == 200:
            return
    raise AssertionError("the server does not answer again")


@pytest.mark.parametrize("size", [1001, 10**9, 10**30])
def test_a_body_that_is_too_long_is_not_waited_for(server, connect, size):
    connection = connect()
    connection.sendall(HEAD.replace(b"20", str(size).encode()))
    assert received(connection).startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 "))
    assert answers(server)


@pytest.mark.parametrize("head", [b"a: b\r\n" * 200_000, b"a: " + b"b" * 2_000_000 + b"\r\n"])
def test_a_head_that_is_too_long_is_refused(server, connect, head):
    connection = connect()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(HEAD.removesuffix(b"\r\n") + head + b"\r\n" + BODY)
    # The system may drop the answer to a client that is still sending.
    assert received(connection)[:13] in (b"HTTP/1.1 400 ", b"")
    assert answers(server)


def test_json_that_holds_much_in_little_is_bounded(tiny_server):
    many = b"[" + b"[]," * 200_000 + b"[]]"
    deep = b"[" * 100_000 + b"]" * 100_000
    named = b'{"a":' * 100_000
    for value in (many, deep, named, b"1" * 500_000, b'"' + b"\\u0000" * 100_000 + b'"'):
        for key in (b"instances", b"inputs"):
            connection = http.client.HTTPConnection(tiny_server.addresses.rest, timeout=60)
            connection.request("POST", PREDICT, b'{"' + key + b'": ' + value + b"}")
            response = connection.getresponse()
            content = response.read()
            connection.close()
            # The one string is translated; the others are refused in few words.
            if response.status == 200:
                assert value[:1] == b'"'
            else:
                assert response.status == 400
                assert len(json.loads(content)["error"]) < 10_000


def test_a_grpc_client_that_says_nothing_disturbs_nobody(server, connect):
    connections = [connect(server.addresses.grpc) for _ in range(50)]
    connections[0].sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    connections[1].sendall(b"\x00" * 1000)
    with Client(server.addresses.grpc) as client:
        assert client.translate(["a"])[0].text == "A"


@pytest.mark.parametrize(
    "asked",
    [
        b"\x0a\xff\xff\xff\xff\x0f",  # a length beyond the message
        b"\x0b" * 100_000,  # groups within groups
        b"\x12\x06\x0a\x04\x0a\x02\x0a\x00" * 10_000,
        b"",
    ],
    ids=["length", "depth", "many", "empty"],
)
def test_malformed_messages_are_refused(tiny_server, asked):
    with grpc.insecure_channel(tiny_server.addresses.grpc) as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        with pytest.raises(grpc.RpcError) as caught:
            call(asked, timeout=60)
    assert caught.value.code().name in ("INTERNAL", "INVALID_ARGUMENT")


def test_names_in_requests_are_not_looked_for_in_the_file_system(tiny_server, tmp_path, opened):
    secret = tmp_path / "secret" / "1"
    secret.mkdir(parents=True)
    names = [str(secret.parent), f"../../..{secret.parent}", "file://" + str(secret.parent)]
    with grpc.insecure_channel(tiny_server.addresses.grpc) as channel:
        for name in names:
            for field in ("name", "signature_name", "version_label"):
                request = predict_pb2.PredictRequest()
                request.model_spec.name = "translation"
                setattr(request.model_spec, field, name)
                call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
                with pytest.raises(grpc.RpcError) as caught:
                    call(request.SerializeToString(), timeout=60)
                wanted = {"name": "NOT_FOUND", "signature_name": "FAILED_PRECONDITION"}
                assert caught.value.code().name == wanted.get(field, "INVALID_ARGUMENT")
    for name in [*names, secret.parent.name]:
        quoted = urllib.parse.quote(name, safe="")
        for path in (quoted, f"translation/labels/{quoted}", f"../{quoted}", f"{quoted}/metadata"):
            for method in ("GET", "POST"):
                connection = http.client.HTTPConnection(tiny_server.addresses.rest, timeout=60)
                connection.request(method, f"/v1/models/{path}", BODY)
                connection.getresponse().read()
                connection.request("POST", f"/v1/models/{path}:predict", BODY)
                assert connection.getresponse().status in (400, 404)
                connection.close()
    assert not [path for path in opened if "secret" in path]
    # The hook does see what is opened.
    list(secret.parent.iterdir())
    assert str(secret.parent) in opened


def test_a_tensor_that_claims_more_than_it_holds_is_refused(tiny_server):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "translation", "numbers"
    tensor = request.inputs["x"]
    tensor.dtype = 1
    for _ in range(4):
        tensor.tensor_shape.dim.add().size = 1 << 20
    tensor.float_val.append(1.0)
    with grpc.insecure_channel(tiny_server.addresses.grpc) as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=60)
    assert caught.value.code().name == "INVALID_ARGUMENT"
    assert caught.value.details() == "tensor parsing error: x"
