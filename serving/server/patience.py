"""How long the REST port waits for clients that are slow, silent or gone."""

import asyncio
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

# As long as the real server's web server waits for a request to come in, or an answer to go out.
PATIENCE_SECONDS = 50.0
# More connections are answered with 503, so that those there are go on being served.
MOST_CONNECTIONS = 1000
# A peer that vanished without a word is noticed after about two minutes.
_PROBE_AFTER_SECONDS, _PROBE_EVERY_SECONDS, _PROBES = 60, 20, 3


class PatientProtocol(H11Protocol):
    """HTTP that closes a connection on which no whole request head arrives in time.

    Slow bodies are the application's to give up on, and idle kept-alive connections uvicorn's.
    """

    _giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there; the time of its first request begins."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Bytes came: perhaps the rest of a head, perhaps the first part of the next."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._giving_up is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._giving_up = self.loop.call_later(PATIENCE_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._giving_up:
            self._giving_up.cancel()
            self._giving_up = None


def notice_the_gone(listener: socket.socket) -> None:
    """Let the system close connections whose peer does not take what is sent, or is no more.

    Args:
        listener: Connections that it accepts inherit this.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {
        "TCP_KEEPIDLE": _PROBE_AFTER_SECONDS,
        "TCP_KEEPINTVL": _PROBE_EVERY_SECONDS,
        "TCP_KEEPCNT": _PROBES,
        "TCP_USER_TIMEOUT": int(PATIENCE_SECONDS * 1000),
    }
    for name, value in settings.items():
        # Not every system has all of them.
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
