"""The playground's own server: its files, and what it passes on to a model server."""

import http.client
import json

import pytest

from models.errors import UserError
from serving.playground.server import Playground


@pytest.fixture
def playground(tiny_server):
    with Playground(port=0) as playground:
        playground.start(f"http://{tiny_server.addresses.rest}", "translation")
        yield playground


def ask(playground, method, path, body=None):
    connection = http.client.HTTPConnection(playground.address, timeout=30)
    connection.request(method, path, body)
    response = connection.getresponse()
    return response.status, dict(response.getheaders()), response.read()


@pytest.mark.parametrize(
    ("path", "kind", "part"),
    [
        ("/", "text/html", b"<!doctype html>"),
        ("/main.js", "text/javascript", b"import"),
        ("/playground.css", "text/css", b":root"),
        ("/icon.svg", "image/svg+xml", b"<svg"),
        ("/settings.json", "application/json", b'"model": "translation"'),
    ],
)
def test_files_are_sent_with_their_types_and_may_load_nothing_from_elsewhere(
    playground, path, kind, part
):
    status, headers, body = ask(playground, "GET", path)
    assert status == 200 and part in body
    assert headers["content-type"].startswith(kind)
    assert headers["content-security-policy"].startswith("default-src 'self'")


def test_no_file_names_an_outside_address(playground):
    for path in ("/", "/main.js", "/server.js", "/page.js", "/translate.js", "/playground.css"):
        text = ask(playground, "GET", path)[2].decode()
        assert "//" not in text.replace("http://www.w3.org/2000/svg", "") or all(
            "http" not in line for line in text.splitlines()
        )


def test_a_prediction_is_that_of_the_server(playground):
    body = json.dumps({"inputs": ["hello"]})
    status, _, answer = ask(playground, "POST", "/v1/models/translation:predict", body)
    assert status == 200
    assert json.loads(answer)["outputs"]["translation"] == ["HELLO"]


def test_errors_of_the_server_are_passed_on_with_their_codes(playground):
    status, _, answer = ask(playground, "GET", "/v1/models/other/metadata")
    assert status == 404 and "Servable not found" in json.loads(answer)["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/../../../etc/passwd"),
        ("GET", "/page/index.html"),
        ("GET", "/v1/models/translation/../../../secret"),
        ("GET", "/v1/models/translation/metadata/more"),
        ("POST", "/index.html"),
        ("DELETE", "/v1/models/translation"),
        ("GET", "/monitoring/prometheus/metrics"),
    ],
)
def test_nothing_else_is_answered_or_passed_on(playground, method, path):
    status, _, answer = ask(playground, method, path)
    assert status == 404 and "no such page" in json.loads(answer)["error"]


def test_a_long_body_is_refused(playground, monkeypatch):
    monkeypatch.setattr("serving.playground.app._LONGEST_BODY", 1000)
    status, _, answer = ask(playground, "POST", "/v1/models/translation:predict", b" " * 1001)
    assert status == 413 and "MiB at most" in json.loads(answer)["error"]


def test_a_server_that_is_gone_is_told():
    with Playground(port=0) as gone:
        address = gone.address  # Bound, and nobody listens.
        with Playground(port=0) as playground:
            playground.start(f"http://{address}", "translation")
            status, _, answer = ask(playground, "GET", "/v1/models/translation")
    assert status == 503 and f"No model server answers at http://{address}" in answer.decode()


def test_a_port_in_use_is_told():
    with Playground(port=0) as playground:
        port = int(playground.address.rpartition(":")[2])
        playground.start("http://127.0.0.1:1", "translation")
        with pytest.raises(UserError, match="cannot listen there for the playground"):
            Playground(port=port)
