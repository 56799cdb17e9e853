"""The client on asyncio against the embedded server, and against servers that misbehave."""

import asyncio

import grpc
import pytest

from models.errors import UserError
from serving.client import AsyncClient, Client, ServerFailure, Translation
from tests.serving.failing_servers import SERVERS, UNAVAILABLE

PROTOCOLS = ("grpc", "rest")


@pytest.fixture(params=PROTOCOLS)
def protocol(request):
    return request.param


@pytest.fixture
def ask(tiny_server, protocol):
    """Runs a function of a client to its end."""

    def ask(function, **options):
        async def run():
            async with AsyncClient(
                getattr(tiny_server.addresses, protocol), protocol, **options
            ) as client:
                return await function(client)

        return asyncio.run(run())

    return ask


@pytest.fixture
def waiting_client(tiny_server, protocol):
    with Client(getattr(tiny_server.addresses, protocol), protocol) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("translate", (["ab", "中", ""],)),
        ("nbest", (["ab", "c d"],)),
        ("align", (["a b", "c"],)),
        ("score", ([("a", "b"), ("", "中")],)),
        ("predict", ({"source": ["a", "b c"], "target": ["d", ""]}, "score")),
        ("status", ()),
    ],
)
def test_both_clients_get_the_same_answers(ask, waiting_client, method, arguments):
    answers = ask(lambda client: getattr(client, method)(*arguments))
    assert answers
    assert answers == getattr(waiting_client, method)(*arguments)


def test_batches_go_out_together_and_answers_stay_in_order(ask, protocol):
    texts = [f"text {number}" for number in range(50)]
    under_way = most = 0

    async def translate(client):
        transport = client._transport()
        predict = transport.predict

        async def counted(*arguments):
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            # The later a batch was sent, the sooner it is answered.
            await asyncio.sleep(0.05 / most)
            try:
                return await predict(*arguments)
            finally:
                under_way -= 1

        transport.predict = counted
        return await client.translate(texts)

    answers = ask(translate, batch_size=3, concurrency=4)
    assert [answer.text for answer in answers] == [text.upper() for text in texts]
    assert most == 4


def test_many_calls_share_a_client(ask):
    async def all_at_once(client):
        return await asyncio.gather(*(client.translate([f"t{n}"]) for n in range(64)))

    answers = ask(all_at_once)
    assert [answer[0].text for answer in answers] == [f"T{n}" for n in range(64)]


def test_no_texts_no_request(protocol):
    async def nothing():
        async with AsyncClient("127.0.0.1:1", protocol) as client:
            return await client.translate([])

    assert asyncio.run(nothing()) == []


def asked(address, protocol, **options):
    async def run():
        async with AsyncClient(address, protocol, **options) as client:
            return await client.translate(["a"])

    return asyncio.run(run())


def test_a_server_that_comes_up_late_is_asked_again(protocol):
    with SERVERS[protocol]([UNAVAILABLE[protocol]] * 2) as server:
        assert asked(server.address, protocol) == [Translation("done", 1.0)]
    assert server.calls == 3


def test_retries_have_an_end(protocol):
    with SERVERS[protocol]([UNAVAILABLE[protocol]] * 9) as server:
        with pytest.raises(UserError, match=r"no server answers there \(as told\)"):
            asked(server.address, protocol, retries=2)
    assert server.calls == 3


@pytest.mark.parametrize(
    ("protocol", "code"),
    [
        ("grpc", grpc.StatusCode.INTERNAL),
        ("grpc", grpc.StatusCode.RESOURCE_EXHAUSTED),
        ("rest", 500),
        ("rest", 429),
    ],
)
def test_nothing_else_is_asked_again(protocol, code):
    with SERVERS[protocol]([code]) as server:
        with pytest.raises(ServerFailure, match="as told"):
            asked(server.address, protocol)
    assert server.calls == 1


def test_a_deadline(ask):
    with pytest.raises(UserError, match="no answer within 0.3 s"):
        ask(lambda client: client.translate(["wait:600"]), timeout=0.3)


def test_one_batch_that_fails_gives_up_the_others(protocol):
    codes = [grpc.StatusCode.INTERNAL] if protocol == "grpc" else [500]
    with SERVERS[protocol](codes) as server:

        async def run():
            async with AsyncClient(server.address, protocol, batch_size=1, concurrency=1) as client:
                await client.translate(["a"] * 20)

        with pytest.raises(ServerFailure):
            asyncio.run(run())
    # The one that failed, and at most the one that took its place before it was told.
    assert server.calls <= 2


def test_messages_name_what_the_other_client_names(protocol):
    with pytest.raises(UserError) as waiting:
        Client("127.0.0.1:1", protocol, retries=0).translate(["a"])
    with pytest.raises(UserError) as other:
        asked("127.0.0.1:1", protocol, retries=0)
    before = str(waiting.value).partition("(")[0]
    assert str(other.value).startswith(before)
    assert "no server answers there" in before


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"batch_size": 0}, {"concurrency": 0}, {"protocol": "http"}]
)
def test_options_that_cannot_be_right(options):
    with pytest.raises(UserError):
        AsyncClient("localhost", **options)
