"""A loaded model as one request sees it: its runs are measured under the model's name."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.server.metrics import Metrics
from serving.server.saved_model import Runner, SavedModelSession
from serving.server.versions import HeldVersion


class MeasuredSession(Runner):
    """Runs what the session runs, and counts how long that takes when it goes well."""

    def __init__(self, session: SavedModelSession, metrics: Metrics, model: str, api: str):
        """Measure one request.

        Args:
            session: The loaded model.
            metrics: Where runs are counted.
            model: Its name.
            api: The method that the request calls.
        """
        self._session = session
        self._metrics = metrics
        self._model = model
        self._api = api

    @property
    def signatures(self) -> Mapping[str, meta_graph_pb2.SignatureDef]:
        """The signatures of the model, by name."""
        return self._session.signatures

    @property
    def checks_method_names(self) -> bool:
        """Whether a signature answers only calls of the method that it names."""
        return self._session.checks_method_names

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_in_ms: int | None = None,
    ) -> list[np.ndarray]:
        """Compute tensors; see `Runner.run`."""
        started = time.monotonic()
        values = self._session.run(feeds, fetches, timeout_in_ms)
        self._metrics.record_run(self._model, self._api, started)
        return values


def measured(version: HeldVersion, metrics: Metrics, model: str, api: str) -> MeasuredSession:
    """The session of a version, for one request."""
    return MeasuredSession(version.session, metrics, model, api)
