"""Requests that share runs: over real sockets, and by the queue's own rules."""

import concurrent.futures
import json
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from models.errors import UserError
from serving.server.batching import BatchingSession
from serving.server.batching_rules import BatchingRules, read_rules
from serving.server.main import Server
from serving.server.metrics import Metrics
from serving.server.options import ServerOptions
from serving.server.saved_model import SavedModelSession
from serving.server.status import ServingError

FOREVER = 60_000_000


@pytest.fixture
def runs(monkeypatch):
    """The numbers of rows of the runs, as they happen."""
    sizes = []
    run = SavedModelSession.run

    def counted(self, feeds, fetches, timeout_in_ms=None):
        sizes.append(len(next(iter(feeds.values()))))
        return run(self, feeds, fetches, timeout_in_ms)

    monkeypatch.setattr(SavedModelSession, "run", counted)
    return sizes


@pytest.fixture
def batched(tiny_exports):
    sessions = []

    def batched(**rules):
        sessions.append(BatchingSession(tiny_exports[""], BatchingRules(**rules), Metrics()))
        return sessions[-1]

    yield batched
    for session in sessions:
        session.close()


def ask(session, texts, timeout_in_ms=None, signature="serving_default"):
    described = session.signatures[signature]
    (feed,) = (info.name for info in described.inputs.values())
    names = [described.outputs[alias].name for alias in sorted(described.outputs)]
    array = texts if isinstance(texts, np.ndarray) else np.array(texts, dtype=object)
    return [value.tolist() for value in session.run({feed: array}, names, timeout_in_ms)]


def together(calls):
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(*call) for call in calls]
    return [future.exception() or future.result() for future in futures]


def test_requests_share_a_run_and_get_their_own_rows(batched, runs):
    session = batched(max_batch_size=6, batch_timeout_micros=FOREVER)
    answers = together([(ask, session, texts) for texts in ([b"a"], [b"b", b"cc"], [b"d"] * 3)])
    assert runs == [6]
    assert [answer[1] for answer in answers] == [[b"A"], [b"B", b"CC"], [b"D"] * 3]
    assert answers[1][0] == pytest.approx([-1 / 3, -2 / 3])


def test_a_batch_runs_when_it_has_waited_long_enough_and_is_filled_up(batched, runs):
    session = batched(max_batch_size=8, batch_timeout_micros=1000, allowed_batch_sizes=(4, 8))
    assert ask(session, [b"a", b"b", b"c"])[1] == [b"A", b"B", b"C"]
    assert ask(session, [b"a"] * 5)[1] == [b"A"] * 5
    assert runs == [4, 8]


def test_a_request_of_some_outputs_runs_alone(batched, runs):
    session = batched(max_batch_size=8, batch_timeout_micros=FOREVER)
    signature = session.signatures["serving_default"]
    feed = {signature.inputs["text"].name: np.array([b"a"], dtype=object)}
    (value,) = session.run(feed, [signature.outputs["translation"].name])
    assert (value.tolist(), runs) == ([b"A"], [1])


def test_a_request_beyond_the_batch_size_is_refused(batched):
    with pytest.raises(ServingError) as caught:
        ask(batched(max_batch_size=2), [b"a"] * 3)
    assert str(caught.value) == (
        "INVALID_ARGUMENT: Task size 3 is larger than maximum input batch size 2"
    )


def test_a_full_queue_refuses(batched):
    rules = {"max_batch_size": 2, "max_enqueued_batches": 1, "batch_timeout_micros": FOREVER}
    session = batched(**rules)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, session, [b"a"])
        while not any(session._queues.values()):
            time.sleep(0.01)
        with pytest.raises(ServingError) as caught:
            ask(session, [b"b", b"c"])
        session.close()
        with pytest.raises(ServingError, match="being unloaded"):
            waiting.result()
    assert str(caught.value) == (
        "UNAVAILABLE: The batch scheduling queue to which this task was submitted is full; "
        "currently 1 batches enqueued and max_enqueued_batches is 1"
    )


def test_shapes_that_differ_fail_the_whole_batch(batched):
    session = batched(max_batch_size=2, batch_timeout_micros=FOREVER)
    arrays = [np.zeros([1, 2], np.float32), np.zeros([1, 3], np.float32)]
    for error in together([(ask, session, array, None, "numbers") for array in arrays]):
        assert "from different tasks have different shapes and padding is turned off" in str(error)


def test_other_lengths_are_padded_with_the_first_element(batched, runs):
    session = batched(
        max_batch_size=4, batch_timeout_micros=FOREVER, pad_variable_length_inputs=True
    )
    arrays = [np.full([1, 2], 5.0), np.full([1, 3], 7.0), np.array([[1.0], [2.0]])]
    answers = together([(ask, session, each.astype("f4"), None, "numbers") for each in arrays])
    assert runs == [4]
    # Each answer is as long as the longest, as there.
    assert answers == [[[[5.0] * 3]], [[[7.0] * 3]], [[[1.0] * 3, [2.0, 1.0, 1.0]]]]


@pytest.mark.parametrize(
    ("other", "message"),
    [([1, 0], "Got empty tensor in batch"), ([1, 2, 2], "different numbers of dimensions")],
)
def test_what_cannot_be_padded_fails_the_whole_batch(batched, other, message):
    session = batched(
        max_batch_size=2, batch_timeout_micros=FOREVER, pad_variable_length_inputs=True
    )
    arrays = [np.zeros([1, 2], np.float32), np.zeros(other, np.float32)]
    for error in together([(ask, session, array, None, "numbers") for array in arrays]):
        assert message in str(error)


def test_a_long_request_is_split_where_asked(batched, runs):
    session = batched(max_batch_size=7, max_execution_batch_size=3)
    texts = [b"%d" % number for number in range(7)]
    assert ask(session, [b"t" + text for text in texts])[1] == [b"T" + text for text in texts]
    assert sum(runs) == 7 and max(runs) <= 3
    with pytest.raises(ServingError, match="Task size 8 is larger than maximum input batch size 7"):
        ask(session, [b"a"] * 8)
    assert ask(session, np.zeros([0], object))[1] == []


def test_parameters_are_read_whole(tmp_path):
    path = tmp_path / "batching.config"
    path.write_text(
        "max_batch_size { value: 8 } enable_large_batch_splitting { value: true } "
        "max_execution_batch_size { value: 4 } pad_variable_length_inputs: true "
        "allowed_batch_sizes: 2 allowed_batch_sizes: 4"
    )
    rules = read_rules(path)
    assert (rules.most_rows, rules.max_batch_size, rules.padded(3)) == (4, 8, 4)
    assert rules.pad_variable_length_inputs


def test_a_request_without_rows_cannot_be_batched(batched):
    with pytest.raises(ServingError, match="must have at least one dimension"):
        ask(batched(), np.array(1.0, np.float32), None, "numbers")


def test_a_deadline_ends_the_waiting(batched):
    session = batched(max_batch_size=2, batch_timeout_micros=FOREVER)
    with pytest.raises(ServingError, match="DEADLINE_EXCEEDED|Deadline"):
        ask(session, [b"a"], timeout_in_ms=50)


def test_callers_of_a_server_are_batched(base_path, tmp_path, runs):
    path = tmp_path / "batching.config"
    path.write_text("max_batch_size { value: 4 } batch_timeout_micros { value: 60000000 }")
    options = ServerOptions(
        "translation",
        base_path,
        port=0,
        rest_api_port=0,
        threads=2,  # Of which a whole batch makes more.
        enable_batching=True,
        batching_parameters_file=path,
    )
    with Server(options) as server:
        url = f"http://{server.addresses.rest}/v1/models/translation:predict"

        def post(text):
            body = json.dumps({"instances": [text]}).encode()
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as response:
                return json.load(response)["predictions"][0]["translation"]

        texts = [f"t{number}" for number in range(8)]
        assert together([(post, text) for text in texts]) == [text.upper() for text in texts]
        with pytest.raises(urllib.error.HTTPError) as caught:
            body = json.dumps({"instances": ["a"] * 5}).encode()
            urllib.request.urlopen(urllib.request.Request(url, body), timeout=30)
        assert "larger than maximum input batch size 4" in caught.value.read().decode()
    assert runs == [4, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_size: 3", "Invalid protobuf file"),
        ("max_batch_size { value: 0 }", "max_batch_size is 0; it must be at least 1"),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 4",
            "must match max_batch_size; last entry was 4; expected 8",
        ),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 8 allowed_batch_sizes: 8",
            "monotonically increasing",
        ),
        ("max_execution_batch_size { value: 2 }", "enable_large_batch_splitting, which heeds it"),
        (
            "max_batch_size { value: 8 } enable_large_batch_splitting { value: true } "
            "max_execution_batch_size { value: 9 }",
            "max_execution_batch_size is 9; it must be from 1 to max_batch_size, 8",
        ),
        (
            "max_batch_size { value: 8 } enable_large_batch_splitting { value: true } "
            "max_execution_batch_size { value: 4 } allowed_batch_sizes: 8",
            "must match max_execution_batch_size; last entry was 8; expected 4",
        ),
    ],
)
def test_wrong_parameters_are_told(tmp_path, text, message):
    path = tmp_path / "batching.config"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_rules(path)


def test_parameters_need_the_switch(base_path, tmp_path):
    with pytest.raises(UserError, match="without setting enable_batching"):
        Server(ServerOptions("m", base_path, batching_parameters_file=tmp_path / "x"))
