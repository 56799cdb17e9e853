"""The client against the embedded server, and against servers that misbehave."""

import concurrent.futures
import pathlib
import socket
import subprocess
import sys

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from models.errors import UserError
from serving.client import (
    Alignment,
    Client,
    PairScore,
    ServerFailure,
    Translation,
    VersionStatus,
    translate_stream,
)
from tests.hostile_strings import hostile_strings
from tests.serving.failing_servers import SERVERS, UNAVAILABLE, Rest

ROOT = pathlib.Path(__file__).parents[2]
PROTOCOLS = ("grpc", "rest")


def address(server, protocol):
    return getattr(server.addresses, protocol)


@pytest.fixture(params=PROTOCOLS)
def protocol(request):
    return request.param


@pytest.fixture
def client(tiny_server, protocol):
    with Client(address(tiny_server, protocol), protocol) as client:
        yield client


def single(value):
    return float(np.float32(value))


def test_translate(client):
    assert client.translate(["ab", "中"]) == [
        Translation("AB", single(-2 / 3)),
        Translation("中", -1.0),
    ]


def test_nbest(client):
    assert client.nbest(["a b", "c"]) == [
        [Translation("A B", -1.0), Translation("a b", -2.0)],
        [Translation("C", single(-1 / 3)), Translation("c", single(-4 / 3))],
    ]


def test_align_has_no_padding_left(client):
    third = single(1 / 3)
    assert client.align(["a", "b c d"]) == [
        Alignment("A", ("a",), ("A",), ((third,),)),
        Alignment("B C D", ("b", "c", "d"), ("B", "C", "D"), ((third,) * 3,) * 3),
    ]


def test_score(client):
    assert client.score([("abc", "de"), ("", "")]) == [
        PairScore(single(-5 / 7), 3),
        PairScore(0.0, 1),
    ]


def test_status(client):
    assert client.status() == [VersionStatus(3, "AVAILABLE", "")]


def test_no_texts_no_request():
    # Nothing listens there, and nothing is asked.
    assert Client("127.0.0.1:1").translate([]) == []


def test_batches_are_cut_and_answers_stay_in_order(tiny_server, protocol):
    sizes = []
    with Client(address(tiny_server, protocol), protocol, batch_size=3) as client:
        predict = client._transport.predict

        def counted(signature, inputs, timeout):
            sizes.append(len(inputs["text"]))
            return predict(signature, inputs, timeout)

        client._transport.predict = counted
        texts = [f"text {number}" for number in range(8)]
        assert [one.text for one in client.translate(texts)] == [text.upper() for text in texts]
    assert sizes == [3, 3, 2]


def test_one_client_serves_many_threads(client):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: client.translate([f"t{n}"])[0].text, range(100)))
    assert answers == [f"T{number}" for number in range(100)]


CONTROLS = (
    "\x00",
    "a\x00b",
    "\n",
    "\r\n",
    "\t\v\f\b",
    "\x1b[31m",
    "\x7f\x80\x85",
    '{"b64": "AA=="}',
    "a" * 70_000,
    "字" * 5_000,
)


def test_grpc_rest_and_the_published_stubs_agree_on_hostile_strings(tiny_server):
    texts = [*CONTROLS, *hostile_strings(1000)]
    answers = []
    for protocol in PROTOCOLS:
        with Client(address(tiny_server, protocol), protocol, batch_size=100) as client:
            answers.append(client.translate(texts))
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "translation"
    encoded = [text.encode() for text in texts]
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(np.array(encoded, dtype=object)))
    with grpc.insecure_channel(tiny_server.addresses.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        outputs = stub.Predict(request, timeout=60).outputs
    published = [
        Translation(text.decode(), score)
        for text, score in zip(
            outputs["translation"].string_val, outputs["score"].float_val, strict=True
        )
    ]
    assert len(published) == 1010
    assert answers[0] == published
    assert answers[1] == published
    assert [one.text.encode() for one in published] == [text.upper() for text in encoded]


def test_half_a_surrogate_pair_is_the_callers_mistake(client):
    with pytest.raises(UserError, match="text 2 has half of a surrogate pair"):
        client.translate(["fine", "\ud800"])


def test_a_stream_through_a_server(client, tmp_path):
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbfone\r\n\ntwo\nthree")
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as target:
        translate_stream(client, source, target, batch_size=2)
    assert (tmp_path / "out").read_bytes() == b"ONE\n\nTWO\nTHREE\n"


def test_an_unknown_model(tiny_server, protocol):
    place = address(tiny_server, protocol)
    with pytest.raises(UserError, match=f"{place}: the server has no model 'other'"):
        Client(place, protocol, "other").translate(["a"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_that_is_no_translator(tiny_server, protocol, monkeypatch):
    from serving import signatures

    unknown = signatures.Signature("none", (), ())
    other = signatures.Signature("numbers", (), (signatures.Field("z", "float32", "B", ""),))
    monkeypatch.setattr(signatures, "TRANSLATE", unknown)
    place = address(tiny_server, protocol)
    with pytest.raises(UserError, match="has no signature 'none'.*seqloom export"):
        Client(place, protocol).translate(["a"])
    monkeypatch.setattr(signatures, "TRANSLATE", other)
    with Client(place, protocol) as client:
        client._transport.predict = lambda *_: {"y": [1.0]}
        with pytest.raises(UserError, match="gives no output 'z' from its signature 'numbers'"):
            client.translate(["a"])


def test_an_answer_of_the_wrong_size_is_the_servers_failure(client):
    client._transport.predict = lambda *_: {"translation": ["a"], "score": [1.0]}
    with pytest.raises(ServerFailure, match="does not have one entry for each of the 2 texts"):
        client.translate(["a", "b"])


def test_a_deadline(tiny_server, protocol):
    with Client(address(tiny_server, protocol), protocol, timeout=0.3) as client:
        with pytest.raises(UserError, match=r"no answer within 0\.3 s"):
            client.translate(["wait:3"])


def test_nothing_listens(protocol):
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(UserError, match=f"{place}: no server answers there.*seqloom serve"):
        Client(place, protocol, retries=1).translate(["a"])


def test_a_host_that_does_not_exist(protocol):
    with pytest.raises(UserError, match="nowhere.invalid.*: no server answers there"):
        Client("nowhere.invalid", protocol, retries=0).translate(["a"])


def test_the_other_port_of_the_server(tiny_server, protocol):
    other = {"grpc": "rest", "rest": "grpc"}[protocol]
    named = {"grpc": "gRPC", "rest": "REST"}
    with pytest.raises(UserError, match=f"Is it the {named[other]} port\\?"):
        Client(address(tiny_server, other), protocol, timeout=20).translate(["a"])


@pytest.mark.parametrize(
    ("target", "protocol", "message"),
    [
        ("localhost:8500", "soap", "protocol 'soap': must be one of grpc, rest"),
        ("http://localhost:8501", "grpc", "is a URL, and gRPC takes host:port"),
        ("localhost:port", "grpc", "'localhost:port': not the address of a server"),
        ("localhost:99999", "rest", "not the address of a server"),
        ("", "grpc", "not the address of a server"),
        ("two words", "rest", "not the address of a server"),
        ("localhost:8500/v1", "grpc", "an address has no path"),
        ("ftp://localhost", "rest", "the scheme ftp is not http or https"),
        ("http://[", "rest", "not the address of a server"),
    ],
)
def test_targets_that_cannot_be_right(target, protocol, message):
    with pytest.raises(UserError, match=message):
        Client(target, protocol)


@pytest.mark.parametrize(
    ("target", "protocol", "expected"),
    [
        ("localhost", "grpc", "localhost:8500"),
        ("localhost", "rest", "http://localhost:8501"),
        ("host:1", "grpc", "host:1"),
        ("[::1]", "grpc", "[::1]:8500"),
        ("https://host/prefix/", "rest", "https://host/prefix/"),
        ("unix:/tmp/socket", "grpc", "unix:/tmp/socket"),
    ],
)
def test_targets_get_the_usual_port(target, protocol, expected):
    with Client(target, protocol) as client:
        assert client._transport.address == expected


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"batch_size": 0}],
)
def test_options_that_cannot_be_right(options):
    with pytest.raises(UserError, match="must be above 0"):
        Client("localhost", **options)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
@pytest.mark.parametrize("name", ["", "\udcff"])
def test_model_names_that_cannot_be_right(protocol, name):
    with pytest.raises(UserError, match="model name .*must be UTF-8 and not empty"):
        Client("localhost", protocol, name)


def test_a_server_that_comes_up_late_is_asked_again(protocol):
    with SERVERS[protocol]([UNAVAILABLE[protocol]] * 2) as server:
        with Client(server.address, protocol) as client:
            assert client.translate(["a"]) == [Translation("done", 1.0)]
    assert server.calls == 3


def test_retries_have_an_end(protocol):
    with SERVERS[protocol]([UNAVAILABLE[protocol]] * 9) as server:
        with Client(server.address, protocol, retries=2) as client:
            with pytest.raises(UserError, match=r"no server answers there \(as told\)"):
                client.translate(["a"])
    assert server.calls == 3


def test_retries_stay_within_the_timeout(protocol):
    with SERVERS[protocol]([UNAVAILABLE[protocol]] * 99) as server:
        with Client(server.address, protocol, timeout=0.5, retries=99) as client:
            with pytest.raises(UserError):
                client.translate(["a"])
    assert 1 < server.calls < 5


@pytest.mark.parametrize(
    ("protocol", "code"),
    [
        ("grpc", grpc.StatusCode.INTERNAL),
        ("grpc", grpc.StatusCode.RESOURCE_EXHAUSTED),
        ("grpc", grpc.StatusCode.INVALID_ARGUMENT),
        ("rest", 500),
        ("rest", 429),
        ("rest", 400),
    ],
)
def test_nothing_else_is_asked_again(protocol, code):
    with SERVERS[protocol]([code]) as server:
        with Client(server.address, protocol) as client:
            with pytest.raises((ServerFailure, UserError), match="as told"):
                client.translate(["a"])
    assert server.calls == 1


@pytest.mark.parametrize("status", [200, 404, 500])
def test_some_other_web_server(status):
    with Rest([status], b"<html>Welcome</html>") as server:
        with Client(server.address, "rest") as client:
            with pytest.raises(UserError, match="not the REST port of a model server"):
                client.translate(["a"])


def test_a_proxy_without_its_server():
    with Rest([503] * 9, b"<html>Bad gateway</html>") as server:
        with Client(server.address, "rest", retries=1) as client:
            with pytest.raises(UserError, match=r"no server answers there \(HTTP 503"):
                client.translate(["a"])
    assert server.calls == 2


def test_some_other_grpc_server(tiny_server):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with Client(f"127.0.0.1:{port}") as client:
        with pytest.raises(UserError, match="not the gRPC port of a model server"):
            client.translate(["a"])
    server.stop(None).wait()


def test_the_client_does_not_import_tensorflow():
    code = (
        "import sys, serving.client\n"
        "heavy = {'tensorflow', 'numpy', 'keras', 'tensorflow_serving'} & set(sys.modules)\n"
        "print(sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_our_messages_and_tensorflows_live_in_one_process(tiny_server):
    # This process has the published stubs loaded, which define messages of the same names.
    with Client(tiny_server.addresses.grpc) as client:
        assert client.translate(["a"])[0].text == "A"
    assert predict_pb2.PredictRequest.DESCRIPTOR.full_name == "tensorflow.serving.PredictRequest"
