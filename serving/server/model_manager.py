"""The models of a server, as a configuration asks for them, and their labels."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

import grpc

from serving.server.model_config import ModelConfig
from serving.server.status import ServingError, invalid_argument
from serving.server.version_policy import State
from serving.server.versions import LoadRules, ModelVersions

_log = logging.getLogger("seqloom.serving")

_Labels = Mapping[str, Mapping[str, int]]


class ModelManager:
    """Starts the models of a configuration, and changes them when a new one comes."""

    def __init__(self, rules: LoadRules, labels_may_wait: bool = False):
        """Prepare; `start` begins to load.

        Args:
            rules: How versions are looked for and loaded.
            labels_may_wait: Whether a new label may name a version that does not answer yet.
        """
        self._rules = rules
        self._labels_may_wait = labels_may_wait
        self._changing = threading.Lock()
        self._closing = threading.Event()
        # Both are replaced, never changed, so that requests read them without a lock. Models
        # that were dropped stay among them: clients may ask how they ended.
        self._models: Mapping[str, ModelVersions] = {}
        self._labels: _Labels = {}
        self._configured: frozenset[str] = frozenset()

    def get(self, name: str) -> ModelVersions | None:
        """A model, also one that was dropped; None if there never was one."""
        return self._models.get(name)

    def labelled(self, name: str, label: str) -> int:
        """The number of the version that bears a label.

        Raises:
            ServingError: If none does.
        """
        try:
            return self._labels[name][label]
        except KeyError:
            raise invalid_argument(f"Unrecognized servable version label: {label}") from None

    def start(self, configs: Sequence[ModelConfig]) -> None:
        """Begin to look for versions and to load them.

        Raises:
            ServingError: If a label names a version that does not answer yet.
        """
        with self._changing:
            self._apply(configs)

    def wait_until_available(self, stop: threading.Event) -> bool:
        """Wait until every model has a version that answers.

        Args:
            stop: Ends the waiting.

        Returns:
            Whether they answer; False if `stop` came first.

        Raises:
            ServingError: If all versions of a model failed to load.
        """
        # All load at once; only the waiting is one after the other.
        return all(self._models[name].wait_until_available(stop) for name in self._configured)

    def reload(self, configs: Sequence[ModelConfig]) -> None:
        """Serve these models from now on, and no others. Returns when they answer.

        Args:
            configs: The whole configuration.

        Raises:
            ServingError: If a label names a version that does not answer, and then all is as
                before; or if a model did not become available.
        """
        with self._changing:
            self._apply(configs)
            try:
                self.wait_until_available(self._closing)
            except ServingError as error:
                _log.error("%s", error.message)
                raise ServingError(grpc.StatusCode.UNKNOWN, self._unavailable()) from None

    def close(self, patience_seconds: float | None = None) -> None:
        """Unload everything.

        Args:
            patience_seconds: Requests still running so long after are cancelled.
        """
        self._closing.set()
        with self._changing:
            _in_parallel([model.close for model in self._models.values()], patience_seconds)

    def _apply(self, configs: Sequence[ModelConfig]) -> None:
        self._labels = self._checked_labels(configs)
        models = dict(self._models)
        for config in configs:
            if config.name in self._configured:
                models[config.name].configure(config.base_path, config.choice)
            else:
                model = ModelVersions(config.name, config.base_path, self._rules, config.choice)
                models[config.name] = model
                model.start()
        names = frozenset(config.name for config in configs)
        for name in self._configured - names:
            # Its requests may take their time, without holding up the new configuration.
            threading.Thread(target=models[name].close, daemon=True).start()
        self._models, self._configured = models, names

    def _checked_labels(self, configs: Sequence[ModelConfig]) -> _Labels:
        for config in configs:
            model = self._models.get(config.name)
            versions = model.snapshot() if model else []
            answering = {one.number for one in versions if one.state is State.AVAILABLE}
            old = self._labels.get(config.name, {})
            for label, number in config.labels.items():
                # A label in use must not move to where nobody answers.
                may_wait = self._labels_may_wait and old.get(label, number) == number
                if number not in answering and not may_wait:
                    raise ServingError(
                        grpc.StatusCode.FAILED_PRECONDITION,
                        f"Request to assign label to version {number} of model {config.name}, "
                        "which is not currently available for inference",
                    )
        return {config.name: dict(config.labels) for config in configs}

    def _unavailable(self) -> str:
        missing = [
            f"{{name: {name} version: {version.number}}}, "
            for name in sorted(self._configured)
            for version in self._models[name].snapshot()
            if version.error
        ]
        return f"Some models did not become available: {{{''.join(missing)}}}"


def _in_parallel(closes: list[Callable[[float | None], None]], patience: float | None) -> None:
    threads = [threading.Thread(target=close, args=(patience,)) for close in closes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
