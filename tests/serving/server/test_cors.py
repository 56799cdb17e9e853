"""Pages of other sites, over real sockets."""

import http.client

import pytest

from serving.server.main import Server
from serving.server.options import ServerOptions

ALLOWED = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "POST, GET",
    "access-control-allow-headers": "Content-Type",
}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory, tiny_exports):
    """Of servers, by whether pages of other sites may ask."""
    base = tmp_path_factory.mktemp("cors") / "translation"
    base.mkdir()
    (base / "1").symlink_to(tiny_exports[""])
    options = {"base_path": base, "port": 0, "rest_api_port": 0}
    with (
        Server(ServerOptions("translation", **options)) as closed,
        Server(ServerOptions("translation", **options, rest_api_enable_cors_support=True)) as open_,
    ):
        yield {False: closed.addresses.rest, True: open_.addresses.rest}


def ask(address, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    told = {name.lower(): value for name, value in response.getheaders()}
    return response.status, {name: told.get(name) for name in ALLOWED}, content


PREDICT = "/v1/models/translation:predict"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", PREDICT, b'{"instances": ["a"]}', 200),
        ("POST", PREDICT, b"{}", 400),
        ("POST", "/v1/models/other:predict", b"{}", 404),
        ("GET", "/v1/models/translation", None, 200),
        ("GET", "/v1/models/other", None, 404),
    ],
)
def test_every_answer_of_the_api_says_that_pages_may_read_it(addresses, method, path, body, status):
    found, headers, content = ask(addresses[True], method, path, body)
    assert (found, headers) == (status, ALLOWED)
    assert ask(addresses[False], method, path, body) == (
        status,
        dict.fromkeys(ALLOWED),
        content,
    )


def test_what_is_not_the_api_says_nothing(addresses):
    status, headers, _ = ask(addresses[True], "GET", "/")
    assert (status, headers) == (404, dict.fromkeys(ALLOWED))


@pytest.mark.parametrize("allowed", [True, False])
def test_a_browser_that_asks_first_is_told_by_headers_alone_whether_it_may(addresses, allowed):
    told = ALLOWED if allowed else dict.fromkeys(ALLOWED)
    for origin in ("https://example.org", "http://localhost:3000"):
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        assert ask(addresses[allowed], "OPTIONS", PREDICT, **asked) == (200, told, b"")
        assert ask(addresses[allowed], "OPTIONS", "/v1/whatever", **asked) == (200, told, b"")
    for other in ({}, {"Origin": "null"}):
        assert ask(addresses[allowed], "OPTIONS", PREDICT, **other) == (400, told, b"")
