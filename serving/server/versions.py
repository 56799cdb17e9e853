"""The versions of one model: found, loaded, handed to requests, and unloaded."""

import contextlib
import dataclasses
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Iterator

import grpc

from serving.server.saved_model import SavedModelSession
from serving.server.status import ServingError
from serving.server.url_folder import Folder, version_here
from serving.server.version_choice import Latest, VersionChoice
from serving.server.version_folders import versions_on_disk
from serving.server.version_policy import State, next_action

_log = logging.getLogger("seqloom.serving")

_NEWEST = Latest()


@dataclasses.dataclass
class Version:
    """One version and where it is in its life.

    Attributes:
        number: The name of its folder.
        path: Its folder.
        state: Its state.
        error: Why it failed to load; None otherwise.
        session: The loaded model; None while there is none.
        in_flight: Requests that are using `session`.
    """

    number: int
    path: Folder
    state: State = State.START
    error: ServingError | None = None
    session: SavedModelSession | None = None
    in_flight: int = 0


@dataclasses.dataclass(frozen=True)
class HeldVersion:
    """What a request gets to see of a version that answers it.

    Attributes:
        number: Its number.
        session: The loaded model.
    """

    number: int
    session: SavedModelSession


@dataclasses.dataclass(frozen=True)
class LoadRules:
    """How versions are looked for and loaded.

    Attributes:
        load: Loads and warms up the version in a folder.
        poll_seconds: Pause between two looks at the folder of the model; 0 looks once.
        retries: Further attempts at a version that failed.
        retry_seconds: Pause before each of them.
    """

    load: Callable[[pathlib.Path], SavedModelSession]
    poll_seconds: float
    retries: int = 0
    retry_seconds: float = 60.0


class ModelVersions:
    """Keeps the chosen versions of a model served while its folder changes.

    One thread looks at the folder and loads; requests only ever `acquire`.
    """

    def __init__(
        self,
        name: str,
        base_path: Folder,
        rules: LoadRules,
        choice: VersionChoice = _NEWEST,
    ):
        """Prepare; nothing is read before `start`.

        Args:
            name: Name of the model.
            base_path: Folder of its versions.
            rules: How they are looked for and loaded.
            choice: Which of them are served.
        """
        self._name = name
        self._base_path = base_path
        self._choice = choice
        self._rules = rules
        self._changed = threading.Condition()
        self._versions: dict[int, Version] = {}
        self._failed: dict[int, ServingError] = {}
        self._wanted: frozenset[int] = frozenset()
        self._complaint = ""
        self._stopping = threading.Event()
        self._look = threading.Event()
        self._giving_up = False
        self._thread = threading.Thread(target=self._run, name=f"versions of {name}", daemon=True)
        self._unloading: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to look for versions and to load them."""
        self._thread.start()

    def configure(self, base_path: Folder, choice: VersionChoice) -> None:
        """Serve these versions from now on.

        Args:
            base_path: Folder of the versions.
            choice: Which of them are served.
        """
        with self._changed:
            self._base_path, self._choice = base_path, choice
        self._look.set()

    def close(self, patience_seconds: float | None = None) -> None:
        """Stop looking, then unload everything once its requests have ended.

        Args:
            patience_seconds: Requests still running so long after are cancelled; None lets
                them take their time.
        """
        self._stopping.set()
        self._look.set()
        if self._thread.ident is not None:
            self._thread.join()
        for version in self._with_state(State.AVAILABLE):
            self._unload(version)
        with self._changed:
            versions = self._versions.values()
            self._changed.wait_for(
                lambda: not any(version.in_flight for version in versions), patience_seconds
            )
            self._giving_up = True
            self._changed.notify_all()
        for thread in self._unloading:
            thread.join()

    def wait_until_available(self, stop: threading.Event) -> bool:
        """Wait for a version that answers.

        Args:
            stop: Ends the waiting.

        Returns:
            Whether one answers; False if `stop` came first.

        Raises:
            ServingError: If all versions that should be served failed to load.
        """
        while not stop.is_set():
            with self._changed:
                if self._latest_available() is not None:
                    return True
                for number, error in self._all_failed().items():
                    raise ServingError(
                        error.code,
                        f"{self._name} version {number} failed to load: {error.message}",
                    )
                self._changed.wait(0.1)
        return False

    @contextlib.contextmanager
    def acquire(self, number: int | None = None) -> Iterator[HeldVersion]:
        """Hold a version for the length of one request; it is not unloaded meanwhile.

        Args:
            number: The version; None takes the latest that answers.

        Yields:
            The version, with its session.

        Raises:
            ServingError: If that version does not answer.
        """
        with self._changed:
            version = self._latest_available() if number is None else self._versions.get(number)
            if not version or not version.session or version.state is not State.AVAILABLE:
                raise not_found(self._name, number)
            version.in_flight += 1
            held = HeldVersion(version.number, version.session)
        try:
            yield held
        finally:
            with self._changed:
                version.in_flight -= 1
                self._changed.notify_all()

    def snapshot(self) -> list[Version]:
        """The versions known since the start, highest number first, as they are now."""
        with self._changed:
            return [
                dataclasses.replace(version)
                for _, version in sorted(self._versions.items(), reverse=True)
            ]

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                wanted = self._choice.choose(versions_on_disk(self._base_path))
            except OSError as error:
                # What is served goes on being served while its folder cannot be read.
                self._complain(f"{self._base_path}: cannot be read: {error}")
            else:
                if not wanted:
                    self._complain(
                        f"{self._base_path}: no version of {self._name} here yet; waiting for a "
                        "folder with an integer for its name"
                    )
                self._reconcile(wanted)
            self._look.wait(self._rules.poll_seconds or None)
            self._look.clear()

    def _complain(self, text: str) -> None:
        """Log a lasting trouble once, not at every look."""
        if text != self._complaint:
            _log.warning(text)
        self._complaint = text

    def _reconcile(self, wanted: dict[int, Folder]) -> None:
        with self._changed:
            self._failed = {n: error for n, error in self._failed.items() if n in wanted}
            self._wanted = frozenset(wanted)
        while not self._stopping.is_set():
            action = next_action(self._states(), wanted.keys())
            if action is None:
                return
            self._complaint = ""
            if action.kind == "load":
                self._load(Version(action.number, wanted[action.number]))
            else:
                self._unload(self._versions[action.number])

    def _states(self) -> dict[int, State]:
        """States as the policy knows them: a version that was unloaded may come again."""
        with self._changed:
            return {
                number: version.state
                for number, version in self._versions.items()
                if version.state is not State.END or number in self._failed
            }

    def _load(self, version: Version) -> None:
        _log.info("loading %s version %d from %s", self._name, version.number, version.path)
        self._enter(version, State.LOADING)
        started = time.monotonic()
        try:
            session = self._load_with_retries(version)
        except ServingError as error:
            _log.error("%s version %d failed to load: %s", self._name, version.number, error)
            with self._changed:
                self._failed[version.number] = version.error = error
            self._enter(version, State.END)
            return
        version.session = session
        self._enter(version, State.AVAILABLE)
        seconds = time.monotonic() - started
        _log.info("%s version %d answers after %.1f s", self._name, version.number, seconds)

    def _load_with_retries(self, version: Version) -> SavedModelSession:
        for _ in range(self._rules.retries):
            try:
                return self._attempt(version.path)
            except ServingError as error:
                _log.warning(
                    "%s version %d failed to load, trying again in %g s: %s",
                    self._name,
                    version.number,
                    self._rules.retry_seconds,
                    error,
                )
            if self._stopping.wait(self._rules.retry_seconds):
                break
        return self._attempt(version.path)

    def _attempt(self, path: Folder) -> SavedModelSession:
        try:
            with version_here(path) as folder:
                return self._rules.load(folder)
        except ServingError:
            raise
        except Exception as error:
            # Whatever a version does, the thread that looks for the next one must live on.
            message = f"{path}: {type(error).__name__}: {error}"
            raise ServingError(grpc.StatusCode.UNKNOWN, message) from error

    def _unload(self, version: Version) -> None:
        """Take a version out of service now, and its memory back when its requests have ended."""
        self._enter(version, State.UNLOADING)
        thread = threading.Thread(target=self._finish_unloading, args=(version,), daemon=True)
        self._unloading = [one for one in self._unloading if one.is_alive()] + [thread]
        thread.start()

    def _finish_unloading(self, version: Version) -> None:
        with self._changed:
            self._changed.wait_for(lambda: version.in_flight == 0 or self._giving_up)
            session, version.session = version.session, None
        if session:
            session.close()
        self._enter(version, State.END)
        _log.info("unloaded %s version %d", self._name, version.number)

    def _enter(self, version: Version, state: State) -> None:
        with self._changed:
            self._versions[version.number] = version
            version.state = state
            self._changed.notify_all()

    def _with_state(self, state: State) -> list[Version]:
        with self._changed:
            return [version for version in self._versions.values() if version.state is state]

    def _all_failed(self) -> dict[int, ServingError]:
        """The errors, if not one of the versions that should be served is left to try."""
        return self._failed if self._wanted <= self._failed.keys() else {}

    def _latest_available(self) -> Version | None:
        available = [one for one in self._versions.values() if one.state is State.AVAILABLE]
        return max(available, key=lambda version: version.number, default=None)


def not_found(name: str, number: int | None) -> ServingError:
    """The error of a request for a version that does not answer; None is the latest."""
    wanted = f"Latest({name})" if number is None else f"Specific({name}, {number})"
    return ServingError(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: {wanted}")
