"""The contract of a client's way to its server, and the errors that come back on it."""

import abc
from collections.abc import Mapping, Sequence

from serving.answers import VersionStatus

# A tensor [B]: strings as UTF-8, int32 or float32; all of one type. Or one of strings, [B, F].
Column = Sequence[bytes] | Sequence[int] | Sequence[float] | Sequence[Sequence[bytes]]

UNAVAILABLE = "UNAVAILABLE"
NOT_FOUND = "NOT_FOUND"
INVALID_ARGUMENT = "INVALID_ARGUMENT"
DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
NO_SUCH_SIGNATURE = "NO_SUCH_SIGNATURE"
NOT_A_SERVER = "NOT_A_SERVER"

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class CallError(Exception):
    """A call that failed.

    Attributes:
        code: The canonical code, or `NO_SUCH_SIGNATURE` or `NOT_A_SERVER`.
        message: The server's words, or those of the network.
    """

    def __init__(self, code: str, message: str):
        """Keep both parts."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Transport(abc.ABC):
    """Carries calls for one model to one server.

    A transport may be used from many threads. It makes each call once: the client retries.

    Attributes:
        address: Where the server should be, as messages name it.
    """

    address: str

    @abc.abstractmethod
    def predict(
        self, signature: str, inputs: Mapping[str, Column], timeout: float
    ) -> dict[str, list]:
        """Run a signature.

        Args:
            signature: Its name.
            inputs: Tensors by alias, each of at least one row.
            timeout: Seconds.

        Returns:
            Outputs by alias, as nested lists.

        Raises:
            CallError: If no answer came, or an error did.
        """

    @abc.abstractmethod
    def status(self, timeout: float) -> list[VersionStatus]:
        """Ask for the versions of the model.

        Args:
            timeout: Seconds.

        Raises:
            CallError: If no answer came, or an error did.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Close the connections."""


class AsyncTransport(abc.ABC):
    """Carries calls for one model to one server, without blocking the event loop.

    Many calls may be under way at once. Each is made once: the client retries.

    Attributes:
        address: Where the server should be, as messages name it.
    """

    address: str

    @abc.abstractmethod
    async def predict(
        self, signature: str, inputs: Mapping[str, Column], timeout: float
    ) -> dict[str, list]:
        """Run a signature; see `Transport.predict`."""

    @abc.abstractmethod
    async def status(self, timeout: float) -> list[VersionStatus]:
        """Ask for the versions of the model; see `Transport.status`."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Close the connections."""
