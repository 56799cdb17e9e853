"""Reads the configuration of models again and again, and serves what it says."""

import logging
import pathlib
import threading

from models.errors import UserError
from serving.server.model_config import read_config_file
from serving.server.model_manager import ModelManager
from serving.server.status import ServingError

_log = logging.getLogger("seqloom.serving")


class ConfigPoll:
    """Looks into the file of models from a thread of its own, from its making until `stop`."""

    def __init__(self, manager: ModelManager, path: pathlib.Path, seconds: float):
        """Begin.

        Args:
            manager: Takes up what the file says.
            path: The file.
            seconds: Pause between two looks.
        """
        self._manager = manager
        self._path = path
        self._seconds = seconds
        self._stopping = threading.Event()
        threading.Thread(target=self._run, name="model config", daemon=True).start()

    def stop(self) -> None:
        """Look no more; a configuration that is being taken up is left to the manager."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                configs = read_config_file(self._path)
            except (UserError, ServingError) as error:
                # What is served goes on being served.
                _log.error("Failed to read ModelServerConfig file: %s", error)
                continue
            try:
                self._manager.reload(configs)
            except ServingError as error:
                _log.error("%s: cannot be taken up: %s", self._path, error)
