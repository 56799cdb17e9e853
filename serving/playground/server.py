"""The web server of the playground, in a thread of its own."""

import threading

import uvicorn

from serving.playground.app import PlaygroundApplication
from serving.server import ports

DEFAULT_PORT = 8502
_DRAIN_SECONDS = 2


class Playground:
    """Serves the playground from `start` to `stop`, or within a `with` block.

    The port is taken at once, so that one in use is told before anything else begins.

    Args:
        host: Address to bind to.
        port: The port; 0 takes a free one.

    Raises:
        UserError: If the port cannot be had.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = DEFAULT_PORT):
        self._listener = ports.bind("the playground", host, port)
        self.address = ports.joined(host, self._listener.getsockname()[1])
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, server: str, model_name: str) -> None:
        """Answer from now on.

        Args:
            server: Address of the model server's REST API, `http://host:port`.
            model_name: The model that the page asks for first.
        """
        config = uvicorn.Config(
            PlaygroundApplication(server, model_name),
            http="h11",
            ws="none",
            lifespan="on",
            loop="asyncio",
            access_log=False,
            log_config=None,
            log_level="error",
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
        self._listener.listen(128)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._listener],), name="playground", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        if self._server and self._thread:
            self._server.should_exit = True
            self._thread.join()
        self._listener.close()

    def __enter__(self) -> "Playground":
        """The playground itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()
