"""Versions that change under a running server, seen by its clients."""

import json
import shutil
import threading
import time
import urllib.request

import pytest

from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions


@pytest.fixture
def server(base_path):
    options = ServerOptions(
        "translation", base_path, port=0, rest_api_port=0, file_system_poll_wait_seconds=0.05
    )
    with Server(options) as server:
        yield server


def publish(export, base_path, number):
    """Copy beside, then rename, as an exporter does."""
    shutil.copytree(export, base_path / ".copying")
    (base_path / ".copying").rename(base_path / str(number))


def states(client):
    return {one.version: one.state for one in client.status()}


def until(client, expected):
    for _ in range(1200):
        if states(client) == expected:
            return
        time.sleep(0.05)
    raise AssertionError(f"{client.status()} did not become {expected}")


class Callers:
    """Asks without pause from several threads, and keeps every answer and every failure."""

    def __init__(self, addresses):
        self.answers, self.failures = [], []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(address, protocol))
            for address, protocol in ((addresses.grpc, "grpc"), (addresses.rest, "rest"))
            for _ in range(2)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, address, protocol):
        # No retries: a single request that fails would show.
        with Client(address, protocol, retries=0) as client:
            while not self._stop.is_set():
                try:
                    self.answers.append(client.translate(["a", "b"]))
                except Exception as error:
                    self.failures.append(error)


def test_a_new_version_arrives_under_load_and_no_request_fails(server, base_path, tiny_exports):
    with Client(server.addresses.grpc) as client, Callers(server.addresses) as callers:
        assert states(client) == {1: "AVAILABLE"}
        publish(tiny_exports["two "], base_path, 2)
        until(client, {2: "AVAILABLE", 1: "END"})
        publish(tiny_exports[""], base_path, 10)
        until(client, {10: "AVAILABLE", 2: "END", 1: "END"})
    texts = {tuple(one.text for one in answer) for answer in callers.answers}
    assert callers.failures == []
    assert texts == {("A", "B"), ("two A", "two B")}


def test_a_broken_version_leaves_the_old_one_serving(server, base_path):
    (base_path / "2").mkdir()
    with Client(server.addresses.grpc) as client:
        until(client, {2: "END", 1: "AVAILABLE"})
        assert [one.text for one in client.translate(["a"])] == ["A"]
        broken = client.status()[0]
        assert "saved_model" in broken.error_message
    with urllib.request.urlopen(
        f"http://{server.addresses.rest}/v1/models/translation/versions/2", timeout=30
    ) as response:
        (status,) = json.load(response)["model_version_status"]
    assert (status["state"], status["status"]["error_code"]) == ("END", "NOT_FOUND")


def test_a_version_whose_warm_up_fails_is_not_served(server, base_path, tiny_exports):
    beside = base_path / ".copying"
    shutil.copytree(tiny_exports["two "], beside)
    (beside / "assets.extra").mkdir()
    (beside / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"no records, only text")
    beside.rename(base_path / "2")
    with Client(server.addresses.rest, "rest") as client:
        until(client, {2: "END", 1: "AVAILABLE"})
        assert [one.text for one in client.translate(["a"])] == ["A"]
