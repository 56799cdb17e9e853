"""The road from an export to an answer, by every way there is: all give the same answers."""

import json
import pathlib
import signal
import subprocess
import threading
import time
import urllib.request

import grpc
import pytest
from command import ROOT, command, environment, seqloom
from hostile_strings import hostile_strings
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from pipeline.translate import LocalModel


class RunningServer:
    """`seqloom serve` in a process of its own.

    Attributes:
        grpc: Address of the gRPC API.
        rest: Address of the REST API.
    """

    def __init__(self, experiment: pathlib.Path, folder: pathlib.Path):
        self._addresses = folder / "addresses.json"
        arguments = ("serve", str(experiment), "--engine", "embedded")
        ports = ("--port", "0", "--rest-api-port", "0", "--address-file", str(self._addresses))
        self.process = subprocess.Popen(
            command(*arguments, *ports),
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        addresses = self._wait()
        self.grpc, self.rest = addresses["grpc"], addresses["rest"]

    def stop(self) -> tuple[int, str]:
        """End it by SIGTERM; its exit status and output."""
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output.decode()

    def _wait(self) -> dict:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._addresses.exists() and self._addresses.read_text():
                return json.loads(self._addresses.read_text())
            time.sleep(0.05)
        raise AssertionError(self.process.communicate()[0].decode())


@pytest.fixture(scope="module")
def served(trained_folder, tmp_path_factory):
    """(experiment file, server) of a model that translates hostile strings somehow."""
    import shutil

    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(trained_folder, folder, dirs_exist_ok=True)
    path = folder / "tiny.yaml"
    path.write_text(path.read_text().replace(f"{trained_folder}/run", f"{folder}/run"))
    seqloom("export", str(path))
    server = RunningServer(path, folder)
    yield path, server
    if server.process.poll() is None:
        server.stop()


def predict_by_grpc(address, texts):
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "translation"
        tensor = request.inputs["text"]
        tensor.dtype = 7
        tensor.tensor_shape.dim.add(size=len(texts))
        tensor.string_val.extend(text.encode() for text in texts)
        answer = stub.Predict(request, timeout=60)
    return [text.decode() for text in answer.outputs["translation"].string_val]


def predict_by_rest(address, texts):
    body = json.dumps({"instances": texts}).encode()
    request = urllib.request.Request(f"http://{address}/v1/models/translation:predict", body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [row["translation"] for row in json.load(answer)["predictions"]]


def batches(texts):
    return [texts[first : first + 32] for first in range(0, len(texts), 32)]


def test_all_ways_give_the_same_answers_to_a_thousand_lines(served):
    path, server = served
    texts = [text for text in hostile_strings(1000) if text.strip("\r")]
    local = LocalModel(path.parent / "run/export")
    expected = [line for batch in batches(texts) for line in local.translate(batch)]
    local.close()
    for predict, address in ((predict_by_grpc, server.grpc), (predict_by_rest, server.rest)):
        found = [line for batch in batches(texts) for line in predict(address, batch)]
        assert found == expected

    lines = "".join(f"{text}\n" for text in texts).encode()
    ways = (
        ("--model", str(path.parent / "run/export")),
        ("--server", server.grpc),
        ("--rest", "--server", server.rest),
    )
    answers = [seqloom("translate", *way, stdin=lines).stdout for way in ways]
    assert answers[0].count(b"\n") == len(texts)
    assert answers[0] == answers[1] == answers[2]
    assert answers[0].decode().split("\n")[:-1] == [line.replace("\n", " ") for line in expected]


def test_two_requests_at_once_get_their_own_answers(served):
    _, server = served
    texts = ["sun moon star", "fog", "rain rain", "snow wind sky sun"] * 4
    alone = [predict_by_grpc(server.grpc, [text])[0] for text in texts]
    found = [None] * len(texts)

    def ask(index):
        predict = predict_by_grpc if index % 2 else predict_by_rest
        address = server.grpc if index % 2 else server.rest
        found[index] = predict(address, [texts[index]])[0]

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_a_line_in_is_a_line_out_whatever_the_locale(served):
    _, server = served
    lines = b"\xef\xbb\xbfsun\r\n\n\nmoon\x0bstar\xe2\x80\xa8fog\n\xff\xfe\nrain"
    answer = seqloom("translate", "--server", server.grpc, stdin=lines, LC_ALL="C")
    found = answer.stdout.split(b"\n")
    assert len(found) == 6 + 1 and found[-1] == b""
    assert found[1] == found[2] == b""
    assert b"line 5" in answer.stderr


def test_a_second_version_is_taken_while_serving_and_no_request_fails(served):
    path, server = served
    failures, versions, stop = [], set(), threading.Event()

    def keep_asking():
        while not stop.is_set():
            try:
                predict_by_rest(server.rest, ["sun moon"])
                predict_by_grpc(server.grpc, ["fog"])
            except Exception as error:
                failures.append(error)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        seqloom("export", str(path))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and "2" not in versions:
            url = f"http://{server.rest}/v1/models/translation"
            with urllib.request.urlopen(url, timeout=10) as answer:
                states = json.load(answer)["model_version_status"]
            versions |= {each["version"] for each in states if each["state"] == "AVAILABLE"}
            time.sleep(0.1)
        time.sleep(1.5)
    finally:
        stop.set()
        asking.join()
    assert not failures
    with grpc.insecure_channel(server.grpc) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "translation"
        answer = stub.GetModelStatus(request, timeout=10)
    states = {each.version: each.state for each in answer.model_version_status}
    state = get_model_status_pb2.ModelVersionStatus
    assert states[2] == state.AVAILABLE and states.get(1, state.END) == state.END


def test_server_drains_and_exits_with_0(served):
    status, output = served[1].stop()
    assert status == 0
    assert "Traceback" not in output
