"""Errors as clients see them: a canonical code and a message, over gRPC and over HTTP."""

import grpc
import tensorflow as tf

_MESSAGE_LIMIT = 1024

_HTTP_STATUS = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


class ServingError(Exception):
    """A request, or the loading of a version, that failed.

    Attributes:
        code: The canonical code.
        message: What went wrong, whole.
    """

    def __init__(self, code: grpc.StatusCode, message: str):
        """Keep both parts."""
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        """Code and message, as they appear when one error is told inside another."""
        return f"{self.code.name}: {self.message}"

    @property
    def number(self) -> int:
        """The code as the number that status messages hold."""
        return self.code.value[0]

    @property
    def http_status(self) -> int:
        """The HTTP status that stands for the code."""
        return _HTTP_STATUS.get(self.code, 500)

    @property
    def grpc_details(self) -> str:
        """The message cut to what fits into the trailers of a gRPC response."""
        encoded = self.message.encode("utf-8", "replace")
        if len(encoded) <= _MESSAGE_LIMIT:
            return self.message
        return encoded[:_MESSAGE_LIMIT].decode("utf-8", "ignore") + "...TRUNCATED"


def invalid_argument(message: str) -> ServingError:
    """An error of the request itself."""
    return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)


def from_tensorflow(error: tf.errors.OpError) -> ServingError:
    """What the executor reported, with its own code and words."""
    code = _BY_NUMBER.get(error.error_code, grpc.StatusCode.UNKNOWN)
    return ServingError(code, error.message)
