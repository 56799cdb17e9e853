"""What the client that waits and the one on asyncio have in common: what they are told."""

import dataclasses

from serving.conversation import Conversation
from serving.transports import checked


@dataclasses.dataclass(eq=False)
class Asker:
    """A client of one server for one model.

    Attributes:
        target: `host:port`, or `host` with the usual port; for REST also a URL.
        protocol: `grpc` or `rest`.
        model_name: Name under which the model is served.
        timeout: Seconds that one batch may take, its retries included.
        batch_size: Rows of one request at most.
        retries: How often a request that found no server is repeated.
    """

    target: str
    protocol: str = "grpc"
    model_name: str = "translation"
    timeout: float = 60.0
    batch_size: int = 32
    retries: int = 4

    def __post_init__(self) -> None:
        """Check what was told; the connection is made by the first call.

        Raises:
            UserError: If something in it cannot be right.
        """
        self._conversation = Conversation(
            checked(self.target, self.protocol, self.model_name),
            self.protocol,
            self.model_name,
            self.timeout,
            self.batch_size,
            self.retries,
        )
