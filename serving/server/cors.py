"""Cross-origin requests: what lets pages of other sites ask the REST API."""

import dataclasses
import re

import grpc

from serving.server.reply import Reply

# As the real server sends them, with every answer of the API.
HEADERS = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "POST, GET"),
    ("access-control-allow-headers", "Content-Type"),
)
_SITE = re.compile(r"https?://")


def preflight(origin: str) -> tuple[grpc.StatusCode, Reply]:
    """Answer the question that a browser asks before a request: may I?

    The real server answers it whether pages of other sites may ask or not; it is the headers that
    tell a browser so.

    Args:
        origin: The request's header `Origin`.

    Returns:
        The code it is counted by, and an answer without a body.
    """
    if _SITE.search(origin):
        return grpc.StatusCode.OK, Reply(200, b"", "")
    return grpc.StatusCode.FAILED_PRECONDITION, Reply(400, b"", "")


def allowed(reply: Reply) -> Reply:
    """The same answer, for pages of any site to read."""
    return dataclasses.replace(reply, headers=HEADERS)
