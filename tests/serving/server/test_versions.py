"""The life of versions, with loads that cost nothing and can be made to fail or to wait."""

import threading
import time

import grpc
import pytest

from serving.server.status import ServingError
from serving.server.version_policy import State
from serving.server.versions import LoadRules, ModelVersions


class FakeSession:
    def __init__(self):
        self.closed = False

    def close(self):
        self.closed = True


class Loader:
    """Loads any folder, unless it holds a file `broken`; remembers what it was asked."""

    def __init__(self):
        self.sessions = {}
        self.asked = []

    def __call__(self, path):
        self.asked.append(path.name)
        if (path / "broken").exists():
            raise ServingError(grpc.StatusCode.DATA_LOSS, (path / "broken").read_text())
        if (path / "bug").exists():
            raise ZeroDivisionError("a bug in a loader")
        self.sessions[int(path.name)] = FakeSession()
        return self.sessions[int(path.name)]


@pytest.fixture
def loader():
    return Loader()


@pytest.fixture
def versions(tmp_path, loader):
    (tmp_path / "1").mkdir()
    model = ModelVersions("m", tmp_path, LoadRules(loader, poll_seconds=0.01))
    model.start()
    assert model.wait_until_available(threading.Event())
    yield model
    model.close()


def add(folder, number, broken=""):
    beside = folder / f"tmp{number}"
    beside.mkdir()
    if broken:
        (beside / "broken").write_text(broken)
    beside.rename(folder / str(number))


def until(model, **states):
    """Wait until the versions have these states, given as `v1="AVAILABLE"`."""
    expected = {int(name[1:]): State[state] for name, state in states.items()}

    def reached():
        return {number: one.state for number, one in model._versions.items()} == expected

    with model._changed:
        assert model._changed.wait_for(reached, 30), model._versions


def eventually(condition):
    return any(condition() or time.sleep(0.01) for _ in range(3000))


def test_a_new_version_takes_over_and_the_old_one_goes(tmp_path, versions, loader):
    with versions.acquire() as version:
        assert version.number == 1
    add(tmp_path, 2)
    until(versions, v1="END", v2="AVAILABLE")
    with versions.acquire() as version:
        assert version.number == 2
    assert loader.sessions[1].closed and not loader.sessions[2].closed


def test_a_version_in_use_is_unloaded_when_its_last_request_ends(tmp_path, versions, loader):
    with versions.acquire() as version:
        add(tmp_path, 2)
        until(versions, v1="UNLOADING", v2="AVAILABLE")
        assert version.session is loader.sessions[1] and not loader.sessions[1].closed
        with pytest.raises(ServingError, match=r"Specific\(m, 1\)"), versions.acquire(1):
            pass
    until(versions, v1="END", v2="AVAILABLE")
    assert loader.sessions[1].closed


def test_a_version_that_hangs_does_not_hold_up_the_next(tmp_path, versions):
    with versions.acquire():
        add(tmp_path, 2)
        until(versions, v1="UNLOADING", v2="AVAILABLE")
        add(tmp_path, 3)
        until(versions, v1="UNLOADING", v2="END", v3="AVAILABLE")


def test_a_version_that_fails_leaves_the_old_one_serving(tmp_path, versions, loader):
    add(tmp_path, 2, broken="bits fell out")
    until(versions, v1="AVAILABLE", v2="END")
    with versions.acquire() as version:
        assert version.number == 1
    failed, served = versions.snapshot()
    assert (failed.number, failed.error.code) == (2, grpc.StatusCode.DATA_LOSS)
    assert failed.error.message == "bits fell out"
    assert served.error is None
    assert loader.asked.count("2") == 1


def test_any_exception_of_a_load_is_such_a_failure(tmp_path, versions):
    beside = tmp_path / "tmp"
    beside.mkdir()
    (beside / "bug").touch()
    beside.rename(tmp_path / "2")
    until(versions, v1="AVAILABLE", v2="END")
    assert "a bug in a loader" in versions.snapshot()[0].error.message
    add(tmp_path, 3)
    until(versions, v1="END", v2="END", v3="AVAILABLE")


def test_a_failed_version_that_comes_again_is_tried_again(tmp_path, versions):
    add(tmp_path, 2, broken="half")
    until(versions, v1="AVAILABLE", v2="END")
    (tmp_path / "2").rename(tmp_path / "aside")
    assert eventually(lambda: not versions._failed)
    (tmp_path / "aside" / "broken").unlink()
    (tmp_path / "aside").rename(tmp_path / "2")
    until(versions, v1="END", v2="AVAILABLE")


def test_taking_the_latest_away_brings_the_one_before_back(tmp_path, versions):
    add(tmp_path, 2)
    until(versions, v1="END", v2="AVAILABLE")
    (tmp_path / "2").rmdir()
    until(versions, v1="AVAILABLE", v2="END")


def test_an_unreadable_base_path_changes_nothing(tmp_path, versions):
    aside = tmp_path.with_name("aside")
    tmp_path.rename(aside)
    looks = threading.Event()
    versions._complain = lambda text: looks.set()
    assert looks.wait(30)
    with versions.acquire() as version:
        assert version.number == 1
    aside.rename(tmp_path)


def test_an_emptied_base_path_unloads_all(tmp_path, versions):
    (tmp_path / "1").rmdir()
    until(versions, v1="END")
    with pytest.raises(ServingError, match=r"Servable not found for request: Latest\(m\)"):
        with versions.acquire():
            pass


def test_a_failed_load_is_tried_again_as_often_as_asked(tmp_path, loader):
    add(tmp_path, 1, broken="still copying")
    attempts = []

    def load(path):
        attempts.append(path)
        if len(attempts) == 3:
            (path / "broken").unlink()
        return loader(path)

    model = ModelVersions("m", tmp_path, LoadRules(load, 0.01, retries=5, retry_seconds=0.01))
    model.start()
    assert model.wait_until_available(threading.Event())
    assert len(attempts) == 3
    model.close()


def test_a_first_version_that_fails_is_told(tmp_path, loader):
    add(tmp_path, 1, broken="nothing in it")
    model = ModelVersions("m", tmp_path, LoadRules(loader, 0.01))
    model.start()
    with pytest.raises(ServingError, match="m version 1 failed to load: nothing in it"):
        model.wait_until_available(threading.Event())
    model.close()


def test_waiting_for_a_first_version_can_be_given_up(tmp_path, loader):
    stop = threading.Event()
    model = ModelVersions("m", tmp_path, LoadRules(loader, 0.01))
    model.start()
    threading.Timer(0.05, stop.set).start()
    assert not model.wait_until_available(stop)
    model.close()


def test_closing_waits_for_requests(tmp_path, versions, loader):
    with versions.acquire():
        closing = threading.Thread(target=versions.close)
        closing.start()
        until(versions, v1="UNLOADING")
        assert not loader.sessions[1].closed
    closing.join()
    assert loader.sessions[1].closed
