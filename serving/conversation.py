"""How clients ask: in batches, again when no server was found, and in words a user can act on.

Nothing here sends or waits, so that the client that waits and the one that does not are alike.
"""

import dataclasses
import random
import time
from collections.abc import Iterator, Mapping, Sequence

from models.errors import UserError
from serving.questions import Outputs, Question
from serving.rows import is_row, padded_rows
from serving.signatures import Signature
from serving.transport import (
    DEADLINE_EXCEEDED,
    INVALID_ARGUMENT,
    NO_SUCH_SIGNATURE,
    NOT_A_SERVER,
    NOT_FOUND,
    UNAVAILABLE,
    CallError,
    Column,
)

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_TIMEOUT_SECONDS = 7 * 24 * 60 * 60  # What is far longer overflows in gRPC and sockets.
_LEAST, _MOST = -(2**31), 2**31 - 1  # of an int32
_NAMES = {"grpc": "gRPC", "rest": "REST"}


class ServerFailure(Exception):
    """The server answered, but with an error that nobody at the keyboard has made."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """One request.

    Attributes:
        signature: The signature asked for.
        inputs: Its inputs, each of `size` rows.
        size: Rows, at least one.
    """

    signature: Signature
    inputs: Mapping[str, Column]
    size: int


@dataclasses.dataclass(frozen=True)
class Conversation:
    """What a client has settled with one server about one model.

    Attributes:
        address: Where the server should be, as messages name it.
        protocol: `grpc` or `rest`.
        model_name: Name under which the model is served.
        timeout: Seconds that one request may take, its retries included.
        batch_size: Rows of one request at most.
        retries: How often a request that found no server is repeated.
    """

    address: str
    protocol: str
    model_name: str
    timeout: float
    batch_size: int
    retries: int

    def __post_init__(self) -> None:
        """Refuse what cannot be right.

        Raises:
            UserError: Saying what can.
        """
        if not 0 < self.timeout <= _LONGEST_TIMEOUT_SECONDS or self.batch_size < 1:
            raise UserError(
                f"timeout {self.timeout:g} and batch_size {self.batch_size}: both must be above 0, "
                f"and the timeout at most {_LONGEST_TIMEOUT_SECONDS} s"
            )

    def batches(self, question: Question) -> Iterator[Batch]:
        """Cut a question into requests, in order.

        Raises:
            UserError: If a value cannot be sent.
        """
        encoded = {name: _encoded(name, values) for name, values in question.columns.items()}
        size = len(next(iter(encoded.values())))
        for start in range(0, size, self.batch_size):
            stop = min(start + self.batch_size, size)
            inputs = {name: values[start:stop] for name, values in encoded.items()}
            yield Batch(question.signature, inputs, stop - start)

    def attempts(self, signature: str = "") -> "Attempts":
        """Begin a request, which may need several attempts."""
        return Attempts(self, signature)

    def check(self, answer: Outputs, batch: Batch) -> None:
        """See whether an answer fits its request.

        Raises:
            UserError: If the model is none that has the outputs of the signature.
            ServerFailure: If an output has not a value a row.
        """
        signature = batch.signature
        missing = [name for name in signature.output_names if name not in answer]
        if missing:
            raise UserError(
                f"{self.address}: the model {self.model_name!r} gives no output "
                f"{missing[0]!r} from its signature {signature.name!r}: it is a model of another "
                "task, or not one that `seqloom export` wrote. Give another model name"
            )
        for name in signature.output_names or answer:
            if not isinstance(answer[name], list) or len(answer[name]) != batch.size:
                raise ServerFailure(
                    f"{self.address}: the output {name!r} does not have one entry for "
                    f"each of the {batch.size} texts of the request"
                )

    def explained(self, error: CallError, signature: str) -> Exception:
        """Say what went wrong in terms of what the user can do."""
        model = self.model_name
        other = "gRPC" if self.protocol == "rest" else "REST"
        explanations = {
            UNAVAILABLE: f"no server answers there ({error.message}). Start one with "
            "`seqloom serve`, or give the host and port of a running one",
            NOT_A_SERVER: f"what answers there is not the {_NAMES[self.protocol]} port of a "
            f"model server ({error.message}). Is it the {other} port? Give the right port, or "
            f"ask by {other}",
            NOT_FOUND: f"the server has no model {model!r} that answers ({error.message}). Give "
            "the name it was exported under",
            NO_SUCH_SIGNATURE: f"the model {model!r} has no signature {signature!r} "
            f"({error.message}). Give another one, or export it again with `seqloom export`",
            INVALID_ARGUMENT: f"the server refuses what it was asked ({error.message}). Give the "
            f"inputs that the signature {signature!r} of the model {model!r} takes",
            DEADLINE_EXCEEDED: f"no answer within {self.timeout:g} s. Give it more time, or "
            f"send fewer than {self.batch_size} texts at once",
        }
        if error.code in explanations:
            return UserError(f"{self.address}: {explanations[error.code]}")
        return ServerFailure(f"{self.address}: {error}")


class Attempts:
    """One request, again while no server is found and there is time."""

    def __init__(self, conversation: Conversation, signature: str):
        """Begin; the time runs from now.

        Args:
            conversation: Says how often, and for how long.
            signature: What is asked for, for messages.
        """
        self._conversation = conversation
        self._signature = signature
        self._deadline = time.monotonic() + conversation.timeout
        self._made = 0

    @property
    def seconds_left(self) -> float:
        """Time that the next attempt may take."""
        return max(self._deadline - time.monotonic(), 0.001)

    def pause_after(self, error: CallError) -> float:
        """How long to wait after a failed attempt before the next: longer each time.

        Returns:
            Seconds, never the same twice, lest all clients of a server come back at once.

        Raises:
            UserError: If there should be no further one, and the user can do something about it.
            ServerFailure: If there should be no further one otherwise.
        """
        pause = _FIRST_PAUSE_SECONDS * 2**self._made * random.uniform(0.75, 1.25)
        late = time.monotonic() + pause >= self._deadline
        if error.code != UNAVAILABLE or self._made == self._conversation.retries or late:
            raise self._conversation.explained(error, self._signature) from None
        self._made += 1
        return pause


def _encoded(name: str, values: Sequence) -> Column:
    if any(map(is_row, values)):
        return padded_rows(name, values)
    kinds = {str if isinstance(value, str) else type(value) for value in values}
    if len(kinds) > 1:
        raise UserError(
            f"the input {name!r} was given values of several types; give it strings alone, or "
            f"numbers alone"
        )
    if kinds == {int} and not (_LEAST <= min(values) and max(values) <= _MOST):
        raise UserError(
            f"the input {name!r} was given an integer beyond {_LEAST} to {_MOST}, which is all "
            f"that an int32 holds"
        )
    if kinds and kinds != {str}:
        return values
    encoded = []
    for number, text in enumerate(values, start=1):
        try:
            encoded.append(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise UserError(
                f"text {number} has half of a surrogate pair, which UTF-8 cannot hold: read the "
                "texts with errors='replace'"
            ) from None
    return encoded
